/**
 * Reads request bodies as bytes: checks content type and declared length, then reads at most the limit (docs/api/reference.md#limits).
 *
 * 413 is plain text on every route; content type and syntax errors have the format of the route.
 */
import type { IncomingMessage } from 'node:http';
import { GatewayError, gatewayError } from '../core/errors.ts';
import { largeBytes } from '../core/low-priority-thread.ts';
import { joinInTurns } from '../core/turns.ts';
import { PlainTextError } from './plain-text-error.ts';

/** The bodies that are held of one key (`body-memory.ts`). */
export interface KeyBodies {
  /** Counts bytes that arrived. Throws `budget_unavailable` when there are too many, and then counts none of them. */
  hold(bytes: number): void;
  release(bytes: number): void;
}

/** Limit of every body except those of provisioning routes. */
export const maxBodyBytes = 32 * 1024 * 1024;

/** Throws `unsupported_media_type` unless the type is `application/json` or ends in `+json`, and for encoded bodies. */
export function checkContentType(request: IncomingMessage): void {
  const { 'content-type': type, 'content-encoding': encoding } = request.headers;
  if (type !== 'application/json' && !isJsonType(type)) throw gatewayError('unsupported_media_type');
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw gatewayError('unsupported_media_type', { message: 'a body with content-encoding is not supported' });
  }
}

function isJsonType(type: string | undefined): boolean {
  const essence = type?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return essence === 'application/json' || /^[^\s/]+\/[^\s/]+\+json$/.test(essence);
}

const bodyTimeoutMs = 300_000;

/** Disconnects a caller whose body takes longer than five minutes; only imports of memory may. To be cleared when the body is read. */
export function limitDuration(request: IncomingMessage): NodeJS.Timeout {
  return setTimeout(() => request.complete || request.destroy(), bodyTimeoutMs);
}

/** A chunk takes 500 bytes of memory besides its own, so a caller that sends single bytes would need gigabytes. */
const maxSeparateChunks = 1_024;

/**
 * Rejects with 413 as soon as the limit is exceeded, with ClientDisconnectedError when the caller disconnects, and with `budget_unavailable`
 * when `memory` is full. The caller releases the bytes of the body from `memory`.
 */
export async function readBody(request: IncomingMessage, limitBytes: number = maxBodyBytes, memory?: KeyBodies): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > limitBytes) throw tooLarge(limitBytes);
  // The caller disconnected, perhaps during the key lookup: the events of `readArriving` have already been emitted.
  if (request.destroyed) throw new ClientDisconnectedError();
  if (declared === 0 || request.readableLength !== declared) return readArriving(request, limitBytes, memory);
  // All of it has arrived, as that of most requests when they are handled: it needs no listeners and no timer.
  memory?.hold(declared);
  const bytes: Buffer = request.read();
  // Without this it would not emit `end`.
  request.resume();
  return bytes;
}

function readArriving(request: IncomingMessage, limitBytes: number, memory: KeyBodies | undefined): Promise<Buffer> {
  const timer = limitDuration(request);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let mergedChunks = 0;
    let size = 0;
    let heldBytes = 0;
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
      if (chunks.length - mergedChunks < maxSeparateChunks) return;
      chunks.push(Buffer.concat(chunks.splice(mergedChunks)));
      mergedChunks += 1;
    });
    request.on('end', () => {
      clearTimeout(timer);
      const [only] = chunks;
      if (only && chunks.length === 1) resolve(only);
      else resolve(size < largeBytes ? Buffer.concat(chunks, size) : joinInTurns(chunks, size));
    });
    // Every request emits `close`, most after `end`: creating an error for each cost 7 µs of CPU per call (measured). An `error` is emitted only
    // to listeners, and `close` follows it.
    request.on('close', () => request.readableEnded || fail(new ClientDisconnectedError()));
  });
}

/** The body as JSON bytes. Null when there is none. Rejects like `checkContentType` and `readBody`. */
async function readOptionalBody(request: IncomingMessage, limitBytes?: number, memory?: KeyBodies): Promise<Buffer | null> {
  const { 'transfer-encoding': encoding, 'content-length': length = '0' } = request.headers;
  if (encoding === undefined && Number(length) === 0) return null;
  checkContentType(request);
  const bytes = await readBody(request, limitBytes, memory);
  return bytes.length === 0 ? null : bytes;
}

/** The caller closed the connection before its request was complete; no response can be sent. */
export class ClientDisconnectedError extends Error {
  constructor() {
    super('the caller closed the connection');
    this.name = 'ClientDisconnectedError';
  }
}

export function tooLarge(limitBytes: number): PlainTextError {
  return new PlainTextError(413, `the body is larger than ${limitBytes} bytes`);
}

/** Converts syntax and content type errors to plain text, as on all routes but chat and messages (docs/api/reference.md#plain-text-errors). */
export function toPlainTextError(error: unknown): unknown {
  if (!(error instanceof GatewayError)) return error;
  if (error.code === 'bad_json') return new PlainTextError(400, error.message);
  if (error.code === 'unsupported_media_type') return new PlainTextError(415, error.message);
  return error;
}

/**
 * The parsed body of a route with plain-text errors (docs/api/reference.md#plain-text-errors). Undefined when there is no body. JSON is
 * UTF-8 (RFC 8259), so other encodings are not JSON.
 */
export async function readOptionalJson(request: IncomingMessage, memory: KeyBodies): Promise<unknown> {
  return (await readJsonText(request, maxBodyBytes, memory))?.value;
}

/** As `readOptionalJson`, with the text of the body. */
export async function readJsonText(
  request: IncomingMessage,
  limitBytes?: number,
  memory?: KeyBodies,
): Promise<{ text: string; value: unknown } | undefined> {
  const bytes = await readOptionalBody(request, limitBytes, memory).catch((error: unknown) => {
    throw toPlainTextError(error);
  });
  if (bytes === null) return undefined;
  try {
    const text = utf8.decode(bytes);
    return { text, value: JSON.parse(text) };
  } catch {
    // The parser's message would quote the body.
    throw new PlainTextError(400, 'the body is not valid JSON');
  } finally {
    memory?.release(bytes.length);
  }
}

/** Rejects invalid UTF-8; keeps a byte-order mark, which `JSON.parse` rejects. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
