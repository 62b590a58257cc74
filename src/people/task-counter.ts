/** Counts waiting and running tasks, so that we can refuse unknown callers if there are too many. */

export interface TaskCounter {
  run<Result>(task: () => Promise<Result>): Promise<Result>;
  /** Returns true if so many tasks are waiting or running that we should refuse unknown callers. */
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
