/**
 * The wait for a row that a caller waits for. A database that refuses says so in milliseconds; one that hangs would hold each caller until
 * the limits of the connection (35 s).
 */
import type { Database } from './database.ts';

const queryTimeoutMs = 2_000;

/** What `read` gives; rejects with what `isConnectionFault` recognises when a server does not answer in time. The statement itself goes on. */
export async function withQueryTimeout<Result>({ kind }: Database, query: Promise<Result>): Promise<Result> {
  // The embedded database is this process: it is never silent, only busy.
  if (kind === 'embedded') return query;
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`Query read timeout: no answer within ${queryTimeoutMs} ms`)), queryTimeoutMs);
  });
  try {
    return await Promise.race([query, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
