/** Bounds how many queries of one purpose run at a time, so that connections of the pool remain for all others. */

export interface QuerySlots {
  /** Runs `query` in the order of the calls. A query that waits when its signal is aborted never runs; `run` then rejects with the signal's reason. */
  run<Result>(query: () => Promise<Result>, signal?: AbortSignal): Promise<Result>;
}

export function createQuerySlots(limit: number): QuerySlots {
  let free = limit;
  /** In the order in which they came. */
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

/** Bounds how many queries run at a time for each key. */
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
