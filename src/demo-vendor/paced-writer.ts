/** Writes to a client that may be slow or disconnected: every wait ends when the client disconnects. */
import type { ServerResponse } from 'node:http';

export interface PacedWriter {
  readonly response: ServerResponse;
  sendHead(): void;
  /** Returns false when the next write must wait for `drained`. */
  write(part: string | Buffer): boolean;
  drained(): Promise<void>;
  wait(milliseconds: number): Promise<void>;
  /** Resolves in the next iteration of the event loop. */
  nextTick(): Promise<void>;
  end(): void;
  isClosed(): boolean;
}

/** Creates the writer of one response. It adds its listeners once, not once per wait. */
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
