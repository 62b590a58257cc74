/** On usage and memory routes a database that cannot be reached is `no_db`, a query that fails `query_failed` (specification 7.4, shapes 21). */
import { GatewayError, gatewayError } from '../core/errors.ts';
import { isConnectionError } from '../db/connection-errors.ts';

/** Runs `query`; what it throws is one of the table's codes. */
export async function mapDatabaseErrors<Result>(query: () => Promise<Result>): Promise<Result> {
  try {
    return await query();
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause;
    throw gatewayError(isConnectionError(cause) ? 'no_db' : 'query_failed', { cause });
  }
}
