/**
 * Implements the parts of HTTP/1.1 that the benchmark's vendor and callers need. It works on bytes, because a complete
 * parser would cost more than what we want to measure. We recognize the end of a chunked body by its last bytes, so the
 * body can't contain a `0` on its own line.
 */

/**
 * @typedef {object} Head
 * @property {string} first the request line or status line
 * @property {number} bodyBytes the content length, or -1 for a chunked body
 */

const headEnd = Buffer.from('\r\n\r\n');
const chunkedEnd = '\r\n0\r\n\r\n';

/**
 * Reads one message after another from a connection. There's no support for pipelining.
 * @param {{ head?: (head: Head, text: string) => void, data?: (bytes: Buffer) => void, end: (head: Head) => void }} on
 * @returns {(chunk: Buffer) => void} call it with each chunk that arrives on the connection
 */
export function createMessageReader(on) {
  /** @type {Buffer | null} */
  let partOfHead = null;
  /** @type {Head | null} */
  let head = null;
  let missing = 0;
  /** The last characters of a chunked body so far, because the end marker may be split across segments. */
  let tail = '';

  /** @param {Buffer} chunk */
  const readBody = (chunk) => {
    if (!head) return;
    if (chunk.length > 0) on.data?.(chunk);
    if (head.bodyBytes >= 0) {
      missing -= chunk.length;
      if (missing > 0) return;
    } else {
      tail = (tail + chunk.toString('latin1', Math.max(0, chunk.length - chunkedEnd.length))).slice(-chunkedEnd.length);
      if (tail !== chunkedEnd) return;
    }
    const ended = head;
    head = null;
    on.end(ended);
  };

  return (chunk) => {
    if (head) return readBody(chunk);
    const bytes = partOfHead ? Buffer.concat([partOfHead, chunk]) : chunk;
    const at = bytes.indexOf(headEnd);
    if (at < 0) {
      partOfHead = bytes;
      return;
    }
    partOfHead = null;
    const text = bytes.toString('latin1', 0, at);
    const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
    const isChunked = length === undefined && /\r\ntransfer-encoding: *chunked/i.test(text);
    head = { first: text.split('\r\n', 1).join(''), bodyBytes: isChunked ? -1 : Number(length ?? 0) };
    missing = head.bodyBytes;
    tail = '\r\n';
    on.head?.(head, text);
    readBody(bytes.subarray(at + headEnd.length));
  };
}

/**
 * A placeholder in the text of a message. Each call replaces it with its number, so that no two messages are the same.
 */
export const numberMark = '##########';

/**
 * Encodes a message once. After that, only the number in it has to be overwritten for each call.
 * @param {string} text
 */
export function createNumbered(text) {
  const bytes = Buffer.from(text);
  const offsets = [...text.matchAll(new RegExp(numberMark, 'g'))].map(({ index }) => Buffer.byteLength(text.slice(0, index)));
  return {
    bytes,
    /** @param {number} number */
    setNumber(number) {
      for (const offset of offsets) {
        for (let rest = number, at = offset + numberMark.length - 1; at >= offset; at -= 1) {
          bytes[at] = 48 + (rest % 10);
          rest = Math.floor(rest / 10);
        }
      }
    },
  };
}
