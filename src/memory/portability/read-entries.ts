/**
 * Splits a stream of bytes into lines, or into the elements of a JSON array, and keeps only one of them in memory.
 * Throws `bad_request` with the number of the line or element if it's too large or not valid UTF-8, or if the array
 * doesn't end.
 */
import { gatewayError } from '../../core/errors.ts';

export interface Entry {
  /** The line number or the position in the array, starting at 1. */
  readonly line: number;
  readonly text: string;
}

/**
 * The maximum size of a line or an array element. There's room for a message of 4 Mi characters, even if every one of
 * them is escaped.
 */
export const maxEntryBytes = 32 * 1024 * 1024;

const lineFeed = 0x0a;

/** Collects the bytes of an entry, which may be spread over several chunks. */
function createHolder() {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  const hold = (part: Uint8Array, line: number): void => {
    held.push(part);
    heldBytes += part.length;
    if (heldBytes > maxEntryBytes) throw lineError(line, `is longer than ${maxEntryBytes} bytes`);
  };
  return {
    hold,
    /** Returns the entry that ends with `rest`, or null if it's blank. */
    take(rest: Uint8Array, line: number): Entry | null {
      hold(rest, line);
      const text = decode(held, line);
      held = [];
      heldBytes = 0;
      return text.trim() === '' ? null : { line, text };
    },
  };
}

export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Entry, void> {
  const { hold, take } = createHolder();
  let line = 1;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, start)) {
      const entry = take(chunk.subarray(start, end), line);
      if (entry) yield entry;
      line += 1;
      start = end + 1;
    }
    if (start < chunk.length) hold(chunk.subarray(start), line);
  }
  const last = take(new Uint8Array(), line);
  if (last) yield last;
}

const code = { quote: 0x22, comma: 0x2c, backslash: 0x5c, openList: 0x5b, closeList: 0x5d, openObject: 0x7b, closeObject: 0x7d };

/**
 * Yields the elements of the first array in a JSON text, such as `[…]` or `{"results": […]}`. Anything after the array
 * is ignored. We don't check the syntax of the elements, so the caller has to parse them.
 */
export async function* readElements(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Entry, void> {
  const { hold, take } = createHolder();
  let element = 1;
  let depth = 0;
  let isInside = false;
  let isString = false;
  let isEscaped = false;
  for await (const chunk of chunks) {
    let start = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at];
      if (isString) {
        if (isEscaped) isEscaped = false;
        else if (byte === code.backslash) isEscaped = true;
        else if (byte === code.quote) isString = false;
        continue;
      }
      if (byte === code.quote) isString = true;
      else if (!isInside) {
        if (byte !== code.openList) continue;
        isInside = true;
        start = at + 1;
      } else if (byte === code.openList || byte === code.openObject) depth += 1;
      else if (depth === 0 && (byte === code.comma || byte === code.closeList)) {
        const entry = take(chunk.subarray(start, at), element);
        if (entry) {
          yield entry;
          element += 1;
        }
        if (byte === code.closeList) return;
        start = at + 1;
      } else if (byte === code.closeList || byte === code.closeObject) depth -= 1;
    }
    if (isInside) hold(chunk.subarray(start), element);
  }
  throw lineError(element, isInside ? 'the array is not closed' : 'the file must contain an array');
}

const peekedBytes = 1_024;

/**
 * Reads the beginning of a stream and returns it as Latin-1, without leading white space. Also returns a stream that
 * still contains everything.
 */
export async function peekStart(
  chunks: AsyncIterable<Uint8Array>,
): Promise<{ readonly start: string; readonly chunks: AsyncIterable<Uint8Array> }> {
  const iterator = chunks[Symbol.asyncIterator]();
  const read: Uint8Array[] = [];
  let bytes = 0;
  while (bytes < peekedBytes) {
    const next = await iterator.next();
    if (next.done === true) break;
    read.push(next.value);
    bytes += next.value.length;
  }
  async function* again(): AsyncGenerator<Uint8Array, void> {
    yield* read;
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value;
  }
  const text = Buffer.concat(read).toString('latin1', 0, peekedBytes);
  // A UTF-8 byte-order mark looks like this in Latin-1.
  return { start: text.replace(/^\u00ef\u00bb\u00bf/, '').trimStart(), chunks: again() };
}

export function lineError(line: number, message: string): Error {
  return gatewayError('bad_request', { message: `line ${line}: ${message}` });
}

function decode(parts: readonly Uint8Array[], line: number): string {
  try {
    // Some editors write a byte-order mark. Leave `ignoreBOM` off, so that the decoder removes it.
    return new TextDecoder('utf-8', { fatal: true }).decode(parts.length === 1 ? parts[0] : Buffer.concat(parts));
  } catch {
    throw lineError(line, 'not valid UTF-8');
  }
}
