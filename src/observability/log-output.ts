/**
 * Buffers log lines and writes them in batches, so that a call never fails because of a stalled reader, a full disk or
 * a closed terminal. If more than `maxBytes` are waiting, we drop lines, and log how many once we can write again.
 * While `sync-writes.ts` allows it, we write on this thread, because the thread pool took five times as much CPU for
 * the log lines of a call (measured). A terminal can block for as long as its user likes, so we always use the thread
 * pool there.
 */
import { write, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { createSyncWrites } from '../core/sync-writes.ts';

export interface LogOutput {
  /** Queues a line, which is written at the end of the tick at the earliest. Never throws. */
  write(line: string): void;
}

export interface LogOutputOptions {
  /** If this is a pipe, it should be in non-blocking mode. Node's own stream for the pipe sets this mode. */
  readonly fd: number;
  readonly maxBytes?: number;
  /** How long to collect lines before writing them. By default, they're written at the end of the tick. */
  readonly collectMs?: number;
  readonly writeNow?: (fd: number, bytes: Buffer) => number;
}

/** The delay before a retry if a pipe is full. */
const fullRetryMs = 20;
/** The delay before a retry after all other errors, e.g. if the disk is full or the terminal was closed. */
const errorRetryMs = 1_000;
const exitTimeoutMs = 500;
const exitRetryMs = 5;

export function createLogOutput({ fd, maxBytes = 8 * 1024 * 1024, collectMs = 0, writeNow = writeSync }: LogOutputOptions): LogOutput {
  const isTerminal = isatty(fd);
  const syncWrites = createSyncWrites();
  let waiting = '';
  let rest: Buffer | null = null;
  let isBusy = false;
  let dropped = 0;
  let hasLines = false;

  const next = (): void => {
    rest = take();
    isBusy = rest !== null;
    if (isBusy) writeRest();
  };

  const take = (): Buffer | null => {
    if (waiting === '') return null;
    const text = dropped === 0 ? waiting : waiting + droppedLine(dropped);
    waiting = '';
    dropped = 0;
    return Buffer.from(text);
  };

  const writeRest = (): void => {
    const bytes = rest;
    if (!bytes) return;
    if (isTerminal || !syncWrites.allows(bytes.length)) {
      write(fd, bytes, onWritten);
      return;
    }
    let written: number;
    try {
      written = syncWrites.measure(() => writeNow(fd, bytes));
    } catch (error) {
      onWritten(error, 0);
      return;
    }
    onWritten(null, written);
  };

  const onWritten = (error: unknown, bytes: number): void => {
    if (error) setTimeout(writeRest, errorCode(error) === 'EAGAIN' ? fullRetryMs : errorRetryMs);
    else if (rest && bytes < rest.length) {
      rest = rest.subarray(bytes);
      writeRest();
    } else next();
  };

  const writeAtExit = (): void => {
    const last = Buffer.concat([rest ?? Buffer.alloc(0), take() ?? Buffer.alloc(0)]);
    rest = null;
    writeLast(fd, last);
  };

  return {
    write(line) {
      if (waiting.length + line.length > maxBytes) {
        dropped += 1;
        return;
      }
      waiting += line;
      if (!hasLines) process.on('exit', writeAtExit);
      hasLines = true;
      if (isBusy) return;
      isBusy = true;
      if (collectMs === 0) setImmediate(next);
      else setTimeout(next, collectMs);
    },
  };
}

/**
 * Writes the remaining lines synchronously when the process exits, even after an uncaught error. Gives up after
 * `exitTimeoutMs`.
 */
function writeLast(fd: number, bytes: Buffer): void {
  const giveUpAt = performance.now() + exitTimeoutMs;
  for (let rest = bytes; rest.length > 0 && performance.now() < giveUpAt; ) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') return; // The lines are lost, because there's nowhere else to write them.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, exitRetryMs);
    }
  }
}

function errorCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : null;
}

function droppedLine(count: number): string {
  const fields = { level: 'warn', time: new Date(performance.timeOrigin + performance.now()).toISOString(), dropped: count };
  return `${JSON.stringify({ ...fields, msg: 'log lines dropped: output not writable' })}\n`;
}
