/**
 * Semaphores for queries. Each kind of query gets a limited number of connections, so that some are always left for the
 * others.
 */
import type { Database } from './database.ts';

export interface QuerySlots {
  /**
   * Runs queries in the order in which they were requested. If the signal is aborted before the query has started, it
   * never runs, and `run` rejects with the signal's reason.
   */
  run<Result>(query: () => Promise<Result>, signal?: AbortSignal): Promise<Result>;
}

export function createQuerySlots(limit: number): QuerySlots {
  let free = limit;
  /** Waiting queries, first come, first served. */
  const waiting = new Set<() => void>();

  const waitForSlot = (signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const leave = (): void => {
        waiting.delete(start);
        reject(signal?.reason);
      };
      const start = (): void => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      waiting.add(start);
      signal?.addEventListener('abort', leave, { once: true });
    });

  const release = (): void => {
    const [next] = waiting;
    if (next === undefined) free += 1;
    else {
      waiting.delete(next);
      next();
    }
  };

  return {
    async run(query, signal) {
      signal?.throwIfAborted();
      if (free > 0) free -= 1;
      else await waitForSlot(signal);
      try {
        return await query();
      } finally {
        release();
      }
    },
  };
}

/** Creates separate slots for each key, and removes them when they're no longer used. */
export function createSlotsByKey(limit: number) {
  const byKey = new Map<string, { readonly slots: QuerySlots; users: number }>();
  return {
    async run<Result>(key: string, query: () => Promise<Result>): Promise<Result> {
      const entry = byKey.get(key) ?? { slots: createQuerySlots(limit), users: 0 };
      byKey.set(key, entry);
      entry.users += 1;
      try {
        return await entry.slots.run(query);
      } finally {
        entry.users -= 1;
        if (entry.users === 0) byKey.delete(key);
      }
    },
  };
}

/** Two very busy projects together still leave a fifth of the pool to the others. */
const connectionsPerProject = 4;
const slotsOf = new WeakMap<Database, ReturnType<typeof createSlotsByKey>>();

/**
 * Returns the database for one project, limited to four connections at a time. A project that sends a flood of requests
 * waits for its own connections and doesn't take those of others. Don't use this inside one of its own transactions. If
 * the project's other connections are all in use, the inner query would wait for the outer transaction forever.
 */
export function databaseOf(database: Database, projectId: string): Pick<Database, 'query' | 'transaction'> {
  const slots = slotsOf.get(database) ?? createSlotsByKey(connectionsPerProject);
  slotsOf.set(database, slots);
  return {
    query: (text, values) => slots.run(projectId, () => database.query(text, values)),
    transaction: (work, settings) => slots.run(projectId, () => database.transaction(work, settings)),
  };
}
