/** Helpers that wait for something while we're sending a response, and stop waiting if the client disconnects. */
import type { ServerResponse } from 'node:http';

/**
 * Resolves when `start` calls `done`, or when the client disconnects. In both cases, this first calls the function that
 * `start` has returned.
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
