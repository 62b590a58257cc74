/** Maps database errors to API error codes (docs/api/reference.md#error-codes). */
import { GatewayError, gatewayError } from '../core/errors.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import { PlainTextError } from './plain-text-error.ts';

/**
 * Runs `query` and maps its errors. Errors meant for the caller pass through. Other errors become `no_db` if the
 * database can't be reached, and `query_failed` otherwise.
 */
export async function mapDatabaseErrors<Result>(query: () => Promise<Result>): Promise<Result> {
  try {
    return await query();
  } catch (cause) {
    if (cause instanceof GatewayError || cause instanceof PlainTextError) throw cause;
    throw gatewayError(isConnectionError(cause) ? 'no_db' : 'query_failed', { cause });
  }
}
