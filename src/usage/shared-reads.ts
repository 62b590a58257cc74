/**
 * Shares reads between callers that request the same key at the same time. At any time at most one read per key is
 * running and one more is waiting to start, so a caller waits for two reads at most.
 */

export interface SharedReads {
  /**
   * Returns a read that hasn't started yet: either one that's already queued for this key, or a new one. A read in
   * progress wouldn't do, because it could miss what the caller has just written.
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
