/**
 * Where log lines leave the process: written in the background, so that no reader that stopped reading, full disk or closed terminal ever
 * stops or breaks a call. What cannot be written waits, up to `maxBytes`; further lines are dropped, and a line says how many as soon as it
 * works again.
 */
import { write, writeSync } from 'node:fs';

export interface LogOutput {
  /** Never throws and never waits. */
  write(line: string): void;
}

export interface LogOutputOptions {
  /** A descriptor; a pipe should be in non-blocking mode, as Node puts its own. */
  readonly fd: number;
  readonly maxBytes?: number;
}

/** A pipe that is full. */
const fullRetryMs = 20;
/** A disk that is full, a terminal that is gone. */
const errorRetryMs = 1_000;
const exitTimeoutMs = 500;
const exitRetryMs = 5;

export function createLogOutput({ fd, maxBytes = 8 * 1024 * 1024 }: LogOutputOptions): LogOutput {
  let waiting = '';
  let rest: Buffer | null = null;
  let isBusy = false;
  let dropped = 0;

  /** The lines of one turn of the event loop, or of all the turns of the write before, in one write: one for each call cost 14 µs of its CPU time. */
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
    if (!rest) return;
    write(fd, rest, (error, bytes) => {
      if (error) setTimeout(writeRest, error.code === 'EAGAIN' ? fullRetryMs : errorRetryMs);
      else if (rest && bytes < rest.length) {
        rest = rest.subarray(bytes);
        writeRest();
      } else next();
    });
  };

  process.on('exit', () => {
    const last = Buffer.concat([rest ?? Buffer.alloc(0), take() ?? Buffer.alloc(0)]);
    rest = null;
    writeLast(fd, last);
  });

  return {
    write(line) {
      if (waiting.length + line.length > maxBytes) {
        dropped += 1;
        return;
      }
      waiting += line;
      if (isBusy) return;
      isBusy = true;
      setImmediate(next);
    },
  };
}

/** An exit in the middle of a turn, also by an error that nobody caught, leaves nothing behind that can be written in a moment. */
function writeLast(fd: number, bytes: Buffer): void {
  const giveUpAt = performance.now() + exitTimeoutMs;
  for (let rest = bytes; rest.length > 0 && performance.now() < giveUpAt; ) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) return; // There is nobody left to tell.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, exitRetryMs);
    }
  }
}

function droppedLine(count: number): string {
  const fields = { level: 'warn', time: new Date(performance.timeOrigin + performance.now()).toISOString(), dropped: count };
  return `${JSON.stringify({ ...fields, msg: 'log lines were dropped: the output could not take them' })}\n`;
}
