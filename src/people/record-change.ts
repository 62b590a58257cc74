/** Makes a change and records it in the audit log, whether it succeeds or not. */

import { GatewayError } from '../core/errors.ts';
import type { Logger } from '../observability/logger.ts';
import type { ActualChange, Audit, AuditDetail, AuditOutcome, AuditStart } from './audit.ts';

export interface ChangeRecorder {
  readonly audit: Pick<Audit, 'begin' | 'finish'>;
  readonly logger: Pick<Logger, 'error'>;
}

/**
 * Runs `change` and returns its result. `change` can note details, which we add to the audit row even if it throws. If
 * it throws an API error, we also add the error code. If `change` does something else than `start` says, it can correct
 * the row.
 */
export async function recordChange<Result>(
  { audit, logger }: ChangeRecorder,
  start: AuditStart,
  change: (note: (detail: AuditDetail) => void, correct: (actual: ActualChange) => void) => Promise<Result>,
): Promise<Result> {
  const id = await audit.begin(start);
  const detail: Record<string, unknown> = {};
  let actual: ActualChange | null = null;
  // Adds the outcome once the change has been made or refused. If this fails, it's only logged, because an error would
  // make the caller repeat the change. The row then looks as if the change had been interrupted.
  const finish = (outcome: AuditOutcome): Promise<void> =>
    audit.finish(id, outcome, detail, actual).catch((err: unknown) => {
      logger.error({ err, action: start.action }, 'failed to add the outcome to the audit log');
    });
  try {
    const result = await change(
      (more) => Object.assign(detail, more),
      (corrected) => {
        actual = corrected;
      },
    );
    await finish('ok');
    return result;
  } catch (error) {
    if (error instanceof GatewayError) detail.error = error.code;
    await finish(error instanceof GatewayError && error.status < 500 ? 'refused' : 'failed');
    throw error;
  }
}
