/** Makes a change with its audit row: written before, completed after, whatever the outcome. */
import { GatewayError } from '../core/errors.ts';
import type { Audit, AuditDetail, AuditStart } from './audit.ts';

/** Returns the result of `change`; its `detail` goes to the audit row. */
export async function recordChange<Result>(
  audit: Pick<Audit, 'begin' | 'finish'>,
  start: AuditStart,
  change: () => Promise<{ readonly result: Result; readonly detail: AuditDetail }>,
): Promise<Result> {
  const id = await audit.begin(start);
  try {
    const { result, detail } = await change();
    await audit.finish(id, 'ok', detail);
    return result;
  } catch (error) {
    const isRefused = error instanceof GatewayError && error.status < 500;
    await audit.finish(id, isRefused ? 'refused' : 'failed');
    throw error;
  }
}
