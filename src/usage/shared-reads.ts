/**
 * Lets callers share a read if they ask for the same key at the same time. For each key, there's never more than one
 * read running and one waiting, so a caller waits for two reads at most.
 */
export function createSharedReads() {
  const running = new Map<string, Promise<unknown>>();
  const waiting = new Map<string, Promise<unknown>>();

  const start = <Result>(key: string, read: () => Promise<Result>): Promise<Result> => {
    const result = read();
    running.set(key, result);
    const end = (): void => {
      if (running.get(key) === result) running.delete(key);
    };
    result.then(end, end);
    return result;
  };

  return {
    /**
     * Joins the read that's waiting to start for this key, or creates one. A read that's already running may not see
     * what the caller has just written.
     */
    run<Result>(key: string, read: () => Promise<Result>): Promise<Result> {
      const shared = waiting.get(key);
      if (shared) return shared as Promise<Result>;
      const current = running.get(key);
      if (!current) return start(key, read);
      const startWaiting = (): Promise<Result> => {
        waiting.delete(key);
        return start(key, read);
      };
      const next = current.then(startWaiting, startWaiting);
      waiting.set(key, next);
      return next;
    },
  };
}
