/** Makes a change with its audit row: written before, completed after, whatever the outcome. */

import { GatewayError } from '../core/errors.ts';
import type { Logger } from '../observability/logger.ts';
import type { Audit, AuditDetail, AuditOutcome, AuditStart } from './audit.ts';

export interface ChangeRecorder {
  readonly audit: Pick<Audit, 'begin' | 'finish'>;
  readonly logger: Pick<Logger, 'error'>;
}

/** Returns the result of `change`. What it notes goes to the audit row, also when it throws; the row of an error has its code too. */
export async function recordChange<Result>(
  { audit, logger }: ChangeRecorder,
  start: AuditStart,
  change: (note: (detail: AuditDetail) => void) => Promise<Result>,
): Promise<Result> {
  const id = await audit.begin(start);
  const detail: Record<string, unknown> = {};
  // By now the change is made or refused: failing would make the caller repeat it. Without an outcome it counts as interrupted.
  const finish = (outcome: AuditOutcome): Promise<void> =>
    audit.finish(id, outcome, detail).catch((err: unknown) => {
      logger.error({ err, action: start.action }, 'the outcome was not added to the audit log');
    });
  try {
    const result = await change((more) => Object.assign(detail, more));
    await finish('ok');
    return result;
  } catch (error) {
    if (error instanceof GatewayError) detail.error = error.code;
    await finish(error instanceof GatewayError && error.status < 500 ? 'refused' : 'failed');
    throw error;
  }
}
