/** Counts the tasks that are waiting or running, so that we can refuse unknown callers when there are too many. */

export interface TaskCounter {
  run<Result>(task: () => Promise<Result>): Promise<Result>;
  /** True if there are so many tasks that we should refuse unknown callers. */
  isBusy(): boolean;
}

export function createTaskCounter({ maxTasks }: { readonly maxTasks: number }): TaskCounter {
  let tasks = 0;
  return {
    async run(task) {
      tasks += 1;
      try {
        return await task();
      } finally {
        tasks -= 1;
      }
    },
    isBusy: () => tasks >= maxTasks,
  };
}
