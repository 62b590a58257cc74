/** Waits while a response is being sent. Waiting ends early if the client disconnects. */
import type { ServerResponse } from 'node:http';

/**
 * Resolves when `start` calls `done` or the client disconnects. In both cases, calls the function that `start`
 * returned.
 */
export function waitFor(response: ServerResponse, start: (done: () => void) => () => void): Promise<void> {
  if (response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('close', done);
      stop();
      resolve();
    };
    const stop = start(done);
    response.once('close', done);
  });
}

export function waitMs(response: ServerResponse, milliseconds: number): Promise<void> {
  return waitFor(response, (done) => {
    const timer = setTimeout(done, milliseconds);
    return () => clearTimeout(timer);
  });
}
