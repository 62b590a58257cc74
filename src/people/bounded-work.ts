/** Bounds work that is expensive: one at a time, for at most half of the time, and only so much of it waits. */

export interface BoundedWork {
  /** Runs the work when its turn comes. */
  run<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Too much is waiting: unknown callers should be refused. */
  isBusy(): boolean;
}

/** After each piece of work nothing runs for as long as it took, because calls may share a single core with it. */
export function createBoundedWork({ maxWaiting }: { readonly maxWaiting: number }): BoundedWork {
  let isTaken = false;
  const waiting: (() => void)[] = [];
  const release = (): void => {
    const next = waiting.shift();
    // The next one takes over the place.
    if (next) next();
    else isTaken = false;
  };
  return {
    async run(work) {
      if (isTaken) await new Promise<void>((resolve) => waiting.push(resolve));
      isTaken = true;
      const startedAt = performance.now();
      try {
        return await work();
      } finally {
        setTimeout(release, Math.ceil(performance.now() - startedAt)).unref();
      }
    },
    isBusy: () => waiting.length >= maxWaiting,
  };
}
