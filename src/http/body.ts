/**
 * Reads request bodies as bytes, after checking the content type and the declared length
 * (docs/api/reference.md#limits). A 413 is plain text on every route, but errors about the content type and syntax have
 * the route's format.
 */
import type { IncomingMessage } from 'node:http';
import { GatewayError, gatewayError } from '../core/errors.ts';
import { parseJsonOrThrow } from '../core/json/parse.ts';
import { largeBytes } from '../core/low-priority-thread.ts';
import { joinInTurns, pieceBytes, takeTurn } from '../core/turns.ts';
import { PlainTextError } from './plain-text-error.ts';

/** Counts the request bodies of one key or account that are in memory (see `body-memory.ts`). */
export interface KeyBodies {
  /** Call this when bytes have arrived. Throws `budget_unavailable` if there isn't enough memory. */
  hold(bytes: number): void;
  release(bytes: number): void;
}

/** The maximum size of a request body, except on the provisioning routes. */
export const maxBodyBytes = 32 * 1024 * 1024;

/**
 * Throws `unsupported_media_type` if the body is compressed or otherwise encoded, or if its type is neither
 * `application/json` nor ends with `+json`.
 */
export function checkContentType(request: IncomingMessage): void {
  const { 'content-type': type, 'content-encoding': encoding } = request.headers;
  if (type !== 'application/json' && !isJsonType(type)) throw gatewayError('unsupported_media_type');
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw gatewayError('unsupported_media_type', { message: 'bodies with content-encoding are not supported; send the body uncompressed' });
  }
}

function isJsonType(type: string | undefined): boolean {
  const essence = type?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return essence === 'application/json' || /^[^\s/]+\/[^\s/]*\+json$/.test(essence);
}

const bodyTimeoutMs = 300_000;

/**
 * Disconnects callers who take longer than five minutes to send a body. Clear the timer when the body is complete.
 * Memory imports can take longer, so they don't use this.
 */
export function limitDuration(request: IncomingMessage): NodeJS.Timeout {
  return setTimeout(() => request.complete || request.destroy(), bodyTimeoutMs);
}

/**
 * How many chunks we keep before we merge them. Each chunk has an overhead of about 500 bytes, so a caller that sends
 * single bytes could otherwise use up gigabytes. If the limit of the body is small, joining it again and again is
 * cheap, so we keep fewer chunks.
 */
const maxSeparateChunks = { smallBody: 64, largeBody: 1_024 };
const maxSmallBodyBytes = 65_536;

/**
 * Checks again whether the caller may send this request, and rejects if not. A body can take minutes to arrive. Without
 * this check, callers could send the beginning of a request, and the rest after their key or session was revoked.
 */
export type AuthorizeAgain = () => Promise<unknown>;

/**
 * Reads the body into a buffer. Rejects with 413 as soon as the body exceeds the limit, with ClientDisconnectedError if
 * the caller disconnects, with the error of `memory` if that is full, and with the error of `authorizeAgain`, which is
 * called if we had to wait for the body. Release the bytes from `memory` when you no longer need them. Only pass null
 * for `memory` if the request has been authorized with an admin token, and for `authorizeAgain` if anybody may send it.
 */
export async function readBody(
  request: IncomingMessage,
  limitBytes: number,
  memory: KeyBodies | null,
  authorizeAgain: AuthorizeAgain | null,
): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > limitBytes) throw tooLarge(limitBytes);
  // If the caller has already disconnected, e.g. during the key lookup, the events that `readArriving` waits for will
  // never fire.
  if (request.destroyed) throw new ClientDisconnectedError();
  if (declared === 0 || request.readableLength !== declared) {
    const arrived = await readArriving(request, limitBytes, memory);
    try {
      await authorizeAgain?.();
    } catch (error) {
      memory?.release(arrived.length);
      throw error;
    }
    return arrived;
  }
  // For most requests, the whole body has already arrived, so we can skip the listeners and the timer.
  memory?.hold(declared);
  const bytes: Buffer = request.read();
  // Let the request flow, because otherwise it would never emit `end`.
  request.resume();
  return bytes;
}

function readArriving(request: IncomingMessage, limitBytes: number, memory: KeyBodies | null): Promise<Buffer> {
  const timer = limitDuration(request);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const isSmall = limitBytes <= maxSmallBodyBytes;
    const maxChunks = isSmall ? maxSeparateChunks.smallBody : maxSeparateChunks.largeBody;
    let mergedChunks = 0;
    let size = 0;
    let heldBytes = 0;
    let pieceEndsAt = pieceBytes;
    const fail = (error: unknown): void => {
      clearTimeout(timer);
      chunks.length = 0;
      request.removeAllListeners('data');
      memory?.release(heldBytes);
      heldBytes = 0;
      reject(error);
    };
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > limitBytes) return fail(tooLarge(limitBytes));
      try {
        memory?.hold(chunk.length);
      } catch (error) {
        return fail(error);
      }
      heldBytes = size;
      chunks.push(chunk);
      if (size >= pieceEndsAt) {
        // Node reads up to 2 MiB per connection and turn. Pause after each piece of a large body, so that other calls
        // aren't held up.
        pieceEndsAt = size + pieceBytes;
        request.pause();
        void takeTurn().then(() => request.resume());
      }
      if (chunks.length - mergedChunks < maxChunks) return;
      chunks.push(Buffer.concat(chunks.splice(isSmall ? 0 : mergedChunks)));
      mergedChunks = isSmall ? 0 : mergedChunks + 1;
    });
    request.on('end', () => {
      clearTimeout(timer);
      // Don't keep the chunks here, because the request exists until the response has been sent.
      const received = chunks.splice(0);
      const [only] = received;
      if (only && received.length === 1) resolve(only);
      else resolve(size < largeBytes ? Buffer.concat(received, size) : joinInTurns(received, size));
    });
    // All requests emit `close`, usually after `end`. We only create the error if the body is incomplete, because
    // creating it for every request takes 7 µs of CPU (measured). We don't need to listen for `error`, because `close`
    // always follows it.
    request.on('close', () => request.readableEnded || fail(new ClientDisconnectedError()));
  });
}

/**
 * Returns null if the request has no body. Rejects with the same errors as `checkContentType` and `readBody`, but as
 * plain text, so only use this on routes with plain-text errors (docs/api/reference.md#plain-text-errors).
 */
export async function readOptionalBody(
  request: IncomingMessage,
  limitBytes: number,
  memory: KeyBodies | null,
  authorizeAgain: AuthorizeAgain,
): Promise<Buffer | null> {
  const { 'transfer-encoding': encoding, 'content-length': length = '0' } = request.headers;
  if (encoding === undefined && Number(length) === 0) return null;
  try {
    checkContentType(request);
    const bytes = await readBody(request, limitBytes, memory, authorizeAgain);
    return bytes.length === 0 ? null : bytes;
  } catch (error) {
    throw toPlainTextError(error);
  }
}

/**
 * Thrown if the caller closes the connection before we've received the whole request, so there's nobody to respond to.
 */
export class ClientDisconnectedError extends Error {
  constructor() {
    super('the caller closed the connection');
    this.name = 'ClientDisconnectedError';
  }
}

export function tooLarge(limitBytes: number): PlainTextError {
  return new PlainTextError(413, `the body is larger than ${limitBytes} bytes`);
}

/**
 * Converts syntax and content type errors to plain text, which all routes except chat and messages use for them
 * (docs/api/reference.md#plain-text-errors).
 */
export function toPlainTextError(error: unknown): unknown {
  if (!(error instanceof GatewayError)) return error;
  if (error.code === 'bad_json') return new PlainTextError(400, error.message);
  if (error.code === 'unsupported_media_type') return new PlainTextError(415, error.message);
  return error;
}

/**
 * Reads the body of a request with an admin token. Returns undefined if there's no body. JSON has to be UTF-8 (RFC
 * 8259), so we reject other encodings as invalid JSON.
 */
export async function readJsonText(
  request: IncomingMessage,
  limitBytes: number,
  authorizeAgain: AuthorizeAgain,
): Promise<{ readonly text: string; readonly value: unknown } | undefined> {
  const bytes = await readOptionalBody(request, limitBytes, null, authorizeAgain);
  if (bytes === null) return undefined;
  try {
    const text = utf8.decode(bytes);
    return { text, value: parseJsonOrThrow(text) };
  } catch {
    // Don't include the parser's message, because it quotes the body.
    throw new PlainTextError(400, 'the body is not valid JSON');
  }
}

/** Throws on invalid UTF-8, and keeps a byte-order mark so that `JSON.parse` rejects it. */
export const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
