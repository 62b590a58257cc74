/**
 * Limits expensive work: tasks run one at a time and take up at most half of the time. `isBusy` returns true once
 * `maxWaiting` tasks are waiting.
 */

export interface BoundedWork {
  /** Runs the work when its turn comes. */
  run<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Too much is waiting: unknown callers should be refused. */
  isBusy(): boolean;
}

/** After each task we pause for as long as the task took, because inference calls may share a single core with it. */
export function createBoundedWork({ maxWaiting }: { readonly maxWaiting: number }): BoundedWork {
  let isTaken = false;
  const waiting: (() => void)[] = [];
  const release = (): void => {
    const next = waiting.shift();
    // `isTaken` stays true, because the slot passes directly to the next task.
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
