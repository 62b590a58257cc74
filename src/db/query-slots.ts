/** Limits how many queries for one purpose run at a time, so that there are always connections left for the others. */
import type { Database } from './database.ts';

export interface QuerySlots {
  /**
   * Runs queries in the order of the calls. If the signal is aborted while a query is waiting, the query never runs,
   * and `run` rejects with the signal's reason.
   */
  run<Result>(query: () => Promise<Result>, signal?: AbortSignal): Promise<Result>;
}

export function createQuerySlots(limit: number): QuerySlots {
  let free = limit;
  /** In order of arrival. */
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

/** Limits how many queries run at a time for each key. */
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

/** Even if two projects are this busy, a fifth of the pool is left for the others. */
const connectionsPerProject = 4;
const slotsOf = new WeakMap<Database, ReturnType<typeof createSlotsByKey>>();

/**
 * Returns the database for one project, which uses at most four connections of the pool at a time. A project that sends
 * any number of requests then waits for its own, and doesn't take the connections of others. Don't use it within one of
 * its own transactions, because that waits for itself once the project has no connection left.
 */
export function databaseOf(database: Database, projectId: string): Pick<Database, 'query' | 'transaction'> {
  const slots = slotsOf.get(database) ?? createSlotsByKey(connectionsPerProject);
  slotsOf.set(database, slots);
  return {
    query: (text, values) => slots.run(projectId, () => database.query(text, values)),
    transaction: (work, settings) => slots.run(projectId, () => database.transaction(work, settings)),
  };
}
