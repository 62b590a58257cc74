/** A short timeout for queries that a caller waits for: a server that accepts the query and never responds would hold it for 35 s. */
import { withTimeout } from '../core/time-limit.ts';
import type { Database } from './database.ts';

const queryTimeoutMs = 2_000;

/** Resolves as `query` does; rejects with a connection error (`isConnectionError`) when a server does not respond in time. The statement continues. */
export async function withQueryTimeout<Result>({ kind, outage }: Database, query: Promise<Result>): Promise<Result> {
  // The embedded database runs in this process: it may be busy, but never unreachable.
  if (kind === 'embedded') return query;
  return withTimeout(query, queryTimeoutMs, (): never => {
    const error = new Error(`Query read timeout: no response within ${queryTimeoutMs} ms`);
    outage?.failed(error);
    throw error;
  });
}
