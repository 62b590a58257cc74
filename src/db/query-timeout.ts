/**
 * A short timeout for queries that a caller is waiting for. Without it, the caller would be stuck for 35 s if the
 * server accepts a query and then never responds.
 */
import { withTimeout } from '../core/time-limit.ts';
import type { Database } from './database.ts';

const queryTimeoutMs = 2_000;

/**
 * Settles like `query`, but rejects with a connection error (see `isConnectionError`) if the server doesn't respond in
 * time. This doesn't cancel the statement.
 */
export async function withQueryTimeout<Result>({ kind, outage }: Database, query: Promise<Result>): Promise<Result> {
  // The embedded database runs in this process, so it can be busy but never unreachable.
  if (kind === 'embedded') return query;
  return withTimeout(query, queryTimeoutMs, (): never => {
    const error = new Error(`Query read timeout: no response within ${queryTimeoutMs} ms`);
    outage?.failed(error);
    throw error;
  });
}
