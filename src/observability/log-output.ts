/**
 * Collects log lines and writes them together, so that a stalled reader, a full disk or a closed terminal never fails a call. Up to
 * `maxBytes` of lines wait to be written; further ones are dropped, and a line reports their number once writing works again.
 *
 * Lines are written in this thread while `sync-writes.ts` allows it: the thread pool took five times as much CPU for the lines of one call
 * (measured). A terminal may block for as long as a person likes, and is always written by the thread pool.
 */
import { write, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { createSyncWrites } from '../core/sync-writes.ts';

export interface LogOutput {
  /** Never throws, and never writes before the end of the turn. */
  write(line: string): void;
}

export interface LogOutputOptions {
  /** A file descriptor; a pipe should be in non-blocking mode, which Node sets for its own streams. */
  readonly fd: number;
  readonly maxBytes?: number;
  /** Collects lines for this long before they are written. Default: 0, to the end of the turn. */
  readonly collectMs?: number;
  /** Writes in this thread; for tests. */
  readonly writeNow?: (fd: number, bytes: Buffer) => number;
}

/** Retry interval while a pipe is full. */
const fullRetryMs = 20;
/** Retry interval after other errors: a full disk, a closed terminal. */
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

  /** One write for all lines that were collected, or that came during the write before. */
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

/** At exit, also after an uncaught error, writes the remaining lines synchronously, within `exitTimeoutMs`. */
function writeLast(fd: number, bytes: Buffer): void {
  const giveUpAt = performance.now() + exitTimeoutMs;
  for (let rest = bytes; rest.length > 0 && performance.now() < giveUpAt; ) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') return; // The lines are lost: they cannot be written elsewhere.
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
