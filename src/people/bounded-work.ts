/** Bounds work that is expensive: how much of it runs at once, and how much waits. */

export interface BoundedWork {
  /** Runs the work when its turn comes. */
  run<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Too much is waiting: unknown callers should be refused. */
  isBusy(): boolean;
}

export function createBoundedWork({ maxRunning, maxWaiting }: { readonly maxRunning: number; readonly maxWaiting: number }): BoundedWork {
  let running = 0;
  const waiting: (() => void)[] = [];
  return {
    async run(work) {
      if (running < maxRunning) running += 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        // The next one takes over the place.
        if (next) next();
        else running -= 1;
      }
    },
    isBusy: () => waiting.length >= maxWaiting,
  };
}
