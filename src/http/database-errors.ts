import { GatewayError, gatewayError } from '../core/errors.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import { PlainTextError } from './plain-text-error.ts';

/**
 * Runs a query and maps its errors: `no_db` if we can't reach the database, and `query_failed` for everything else.
 * Errors that are meant for the caller stay unchanged.
 */
export async function mapDatabaseErrors<Result>(query: () => Promise<Result>): Promise<Result> {
  try {
    return await query();
  } catch (cause) {
    if (cause instanceof GatewayError || cause instanceof PlainTextError) throw cause;
    throw gatewayError(isConnectionError(cause) ? 'no_db' : 'query_failed', { cause });
  }
}
