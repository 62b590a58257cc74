/**
 * Shares reads between callers that ask for the same thing at the same time. However many there are, one read runs and
 * at most one waits for it, so a caller waits for two reads at most.
 */

export interface SharedReads {
  /**
   * Runs `read` unless a read of the same key is already waiting to start. Never returns the result of a read that
   * started before this call, because it may have missed what the caller has just written.
   */
  run<Result>(key: string, read: () => Promise<Result>): Promise<Result>;
}

export function createSharedReads(): SharedReads {
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
