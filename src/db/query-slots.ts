/** Limits how many connections each kind of query can use at a time, so that one kind can't starve the others. */
import type { Database } from './database.ts';

type QuerySlots = ReturnType<typeof createQuerySlots>;

export function createQuerySlots(limit: number) {
  let free = limit;
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
    /**
     * Runs queries in the order in which they were requested. If the signal is aborted before the query has started, it
     * never runs, and `run` rejects with the signal's reason.
     */
    async run<Result>(query: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
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

/** Gives each key its own slots. The slots are discarded when none of the key's queries is running or waiting. */
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

/**
 * The maximum number of connections per project. Two very busy projects together then still leave a fifth of the pool
 * to other projects.
 */
const connectionsPerProject = 4;
const slotsOf = new WeakMap<Database, ReturnType<typeof createSlotsByKey>>();

/**
 * Returns a database for queries of one project, with at most four connections at a time. If a project sends a flood of
 * requests, they wait for each other and don't take connections away from other projects.
 *
 * Don't call this inside a transaction that was started with it. If the project's other connections are all busy, the
 * inner query would wait forever for the outer transaction to end.
 */
export function databaseOf(database: Database, projectId: string): Pick<Database, 'query' | 'transaction'> {
  const slots = slotsOf.get(database) ?? createSlotsByKey(connectionsPerProject);
  slotsOf.set(database, slots);
  return {
    query: (text, values) => slots.run(projectId, () => database.query(text, values)),
    transaction: (work, settings) => slots.run(projectId, () => database.transaction(work, settings)),
  };
}
