/**
 * Counts the tasks that are waiting or running, so that requests from unknown callers can be refused when there are too
 * many.
 */

export interface TaskCounter {
  run<Result>(task: () => Promise<Result>): Promise<Result>;
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
