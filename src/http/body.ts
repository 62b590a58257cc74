/**
 * Reads a request's body as bytes: content type, declared length, then at most 32 MiB (specification 4.1, 8).
 *
 * 413 is plain text on every route; content type and syntax errors are the route's own (decisions 3).
 */
import type { IncomingMessage } from 'node:http';
import { GatewayError, gatewayError } from '../core/errors.ts';
import type { BodySpans } from '../core/json/spans.ts';
import { scanObject } from '../core/json/spans.ts';
import { JsonSyntaxError } from '../core/json/syntax.ts';
import { PlainTextError } from './plain-text-error.ts';

const maxBodyBytes = 32 * 1024 * 1024;

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

/** Throws 413 as soon as it is known; a promise that is never settled does not exist: a caller who leaves rejects it. */
export function readBody(request: IncomingMessage): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > maxBodyBytes) return Promise.reject(tooLarge());
  // A caller who left while its key was looked up: the events below have passed already.
  if (request.destroyed) return Promise.reject(new ClientDisconnectedError());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBodyBytes) {
        chunks.length = 0;
        request.removeAllListeners('data');
        reject(tooLarge());
        return;
      }
      chunks.push(chunk);
    });
    request.once('end', () => {
      const [only] = chunks;
      resolve(only && chunks.length === 1 ? only : Buffer.concat(chunks, size));
    });
    // Every request closes, most after their end: an error for each of them, with its stack, was 7 µs of CPU a call (measured).
    request.once('close', () => request.readableEnded || reject(new ClientDisconnectedError()));
    request.once('error', () => reject(new ClientDisconnectedError()));
  });
}

/** The caller closed the connection before its request was whole: there is nobody to answer. */
export class ClientDisconnectedError extends Error {
  constructor() {
    super('the caller closed the connection');
    this.name = 'CallerGone';
  }
}

function tooLarge(): PlainTextError {
  return new PlainTextError(413, `the body is larger than ${maxBodyBytes} bytes`);
}

/** Where the `wanted` members of a JSON body stand. Throws `bad_json`. */
export function scanJson(body: Buffer, keys: ReadonlySet<string>): BodySpans {
  try {
    return scanObject(body, keys);
  } catch (error) {
    if (error instanceof JsonSyntaxError)
      throw gatewayError('bad_json', { message: `the body is not valid JSON: ${error.message}`, cause: error });
    throw error;
  }
}

/** On all routes but chat and messages syntax and content type are answered with plain text (specification 7.2). */
export function toPlainTextError(error: unknown): unknown {
  if (!(error instanceof GatewayError)) return error;
  if (error.code === 'bad_json') return new PlainTextError(400, error.message);
  if (error.code === 'unsupported_media_type') return new PlainTextError(415, error.message);
  return error;
}

/**
 * The body of a route that answers content type and syntax errors with plain text (specification 7.2), parsed; undefined when there is
 * none. JSON is UTF-8 (RFC 8259), so other bytes are no JSON.
 */
export async function readOptionalJson(request: IncomingMessage): Promise<unknown> {
  const { 'transfer-encoding': encoding, 'content-length': length = '0' } = request.headers;
  if (encoding === undefined && Number(length) === 0) return undefined;
  try {
    checkContentType(request);
  } catch (error) {
    throw toPlainTextError(error);
  }
  const bytes = await readBody(request);
  if (bytes.length === 0) return undefined;
  try {
    return JSON.parse(utf8.decode(bytes));
  } catch {
    // What is wrong would quote the body.
    throw new PlainTextError(400, 'the body is not valid JSON');
  }
}

/** Refuses bytes that are no UTF-8; `JSON.parse` refuses the byte-order mark it keeps. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
