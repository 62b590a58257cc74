/** Distinguishes errors that are caused by a record's data from problems of the database or the gateway. */
import { errorCode } from '../core/error-messages.ts';
import { isConnectionError } from '../db/connection-errors.ts';

/**
 * SQLSTATE classes of errors that a record's data can cause: cardinality violations (21), data exceptions (22),
 * constraint violations (23), check option violations (44) and program limits, e.g. a value that is too large for an
 * index (54).
 *
 * All other classes mean that something is wrong with the database or the gateway, e.g. with connections, permissions,
 * missing tables, internal errors and damaged indexes (XX), unsupported features (0A) or exceptions raised by triggers
 * (P0). Once somebody has fixed the cause, a retry succeeds, so we keep the texts of all records until then.
 */
const dataErrors = /^(?:21|22|23|44|54)[0-9A-Z]{3}$/;
const sqlState = /^[0-9A-Z]{5}$/;
const systemError = /^E[A-Z]+$/;

/**
 * Returns true if the data itself caused the error, so that a retry would fail again. Errors without an SQLSTATE count
 * as well, because they come from our own code that processes the data.
 */
export function isDataError(error: unknown): boolean {
  if (isConnectionError(error)) return false;
  const code = errorCode(error);
  if (typeof code !== 'string') return true;
  return dataErrors.test(code) || !(sqlState.test(code) || systemError.test(code));
}
