/** Counts the tasks that are waiting or running, so that we can turn away unknown callers when there are too many. */

export interface BoundedWork {
  run<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Returns true if so much work is waiting that unknown callers should be refused. */
  isBusy(): boolean;
}

export function createBoundedWork({ maxTasks }: { readonly maxTasks: number }): BoundedWork {
  let tasks = 0;
  return {
    async run(work) {
      tasks += 1;
      try {
        return await work();
      } finally {
        tasks -= 1;
      }
    },
    isBusy: () => tasks >= maxTasks,
  };
}
