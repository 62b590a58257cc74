/** Maps database errors to API error codes (docs/api/reference.md#error-codes). */
import { GatewayError, gatewayError } from '../core/errors.ts';
import { isConnectionError } from '../db/connection-errors.ts';

/** Runs `query` and throws `no_db` when the database is unreachable, `query_failed` for other errors that are not gateway errors. */
export async function mapDatabaseErrors<Result>(query: () => Promise<Result>): Promise<Result> {
  try {
    return await query();
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause;
    throw gatewayError(isConnectionError(cause) ? 'no_db' : 'query_failed', { cause });
  }
}
