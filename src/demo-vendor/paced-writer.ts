/** Writing to a caller who may be slow or gone: every wait ends when the caller leaves. */
import type { ServerResponse } from 'node:http';

export interface PacedWriter {
  readonly response: ServerResponse;
  sendHead(): void;
  /** False: wait for `drained` before the next one. */
  write(part: string | Buffer): boolean;
  drained(): Promise<void>;
  wait(milliseconds: number): Promise<void>;
  /** The next turn of the event loop. */
  nextTick(): Promise<void>;
  end(): void;
  isClosed(): boolean;
}

/** One pen per answer: it listens to the response once, not once per wait. */
export function createPacedWriter(response: ServerResponse): PacedWriter {
  let closed = response.destroyed || response.socket === null;
  let wakeDrained: (() => void) | null = null;
  let wakeClosed: (() => void) | null = null;
  response.on('drain', () => wakeDrained?.());
  response.once('close', () => {
    closed = true;
    wakeDrained?.();
    wakeClosed?.();
  });

  return {
    response,
    sendHead: () => response.flushHeaders(),
    write: (part) => response.write(part),
    drained() {
      if (closed || !response.writableNeedDrain) return Promise.resolve();
      return new Promise((resolve) => {
        wakeDrained = resolve;
      });
    },
    wait(milliseconds) {
      if (closed) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        wakeClosed = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
    nextTick: () => new Promise((resolve) => setImmediate(resolve)),
    end: () => response.end(),
    isClosed: () => closed,
  };
}
