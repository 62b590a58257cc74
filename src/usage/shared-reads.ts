/**
 * Lets callers that ask for the same key at the same time share a read. For each key, at most one read is running and
 * another is waiting, so a caller never waits for more than two reads.
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
