/**
 * Turns AWS's binary event stream (`application/vnd.amazon.eventstream`) into server-sent events of the messages
 * dialect, so that nothing else has to know about it. Bedrock sends Claude's events this way.
 *
 * A frame starts with its length, the length of its headers, and a checksum of both. After that come the headers, the
 * payload, and a checksum of everything before it.
 */
import { crc32 } from 'node:zlib';
import { VendorError } from '../core/errors.ts';
import { asObject, asString } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';
import { ownValue } from '../core/own-value.ts';
import type { ResponseBody } from './response-body.ts';

const preludeBytes = 12;
const checksumBytes = 4;
/**
 * AWS allows frames of up to 24 MB, but Bedrock never puts more than one event into a frame, so we get by with less.
 */
const maxFrameBytes = 1024 * 1024;

export function isAwsEventStream(contentType: string): boolean {
  return /^application\/vnd\.amazon\.eventstream\b/i.test(contentType);
}

/**
 * Converts the body to server-sent events. If a frame is damaged or incomplete, the body fails just like after a broken
 * connection.
 */
export function decodeAwsEventStream(body: ResponseBody): ResponseBody {
  let rest: Buffer = Buffer.alloc(0);
  let failure: VendorError | null = null;

  /** Decodes all complete frames. If a frame is damaged, we still return the ones before it. */
  const decode = (bytes: Buffer): Buffer => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    const events: string[] = [];
    try {
      for (let frame = cutFrame(rest); frame !== null; frame = cutFrame(rest)) {
        events.push(toServerSentEvent(frame));
        rest = rest.subarray(frame.sizeBytes);
      }
    } catch (cause) {
      failure = cause instanceof VendorError ? cause : new VendorError('broken', 'the event stream is damaged', { cause });
      body.destroy(failure);
    }
    return Buffer.from(events.join(''));
  };

  const take = (): Buffer | null => {
    if (failure) throw failure;
    for (let arrived = body.take(); arrived !== null; arrived = body.take()) {
      const text = decode(arrived);
      if (text.length > 0) return text;
      if (failure) throw failure;
    }
    if (body.isEnded() && rest.length > 0) throw new VendorError('broken', 'the event stream ended in the middle of an event');
    return null;
  };

  return {
    ...body,
    take,
    isEnded: () => failure === null && rest.length === 0 && body.isEnded(),
    arrival: () => (failure ? Promise.resolve() : body.arrival()),
    async readAll() {
      throw new Error('readAll does not support event streams; read them with take');
    },
    takeComplete: () => null,
  };
}

interface Frame {
  readonly headers: ReadonlyMap<string, string>;
  readonly payload: Buffer;
  readonly sizeBytes: number;
}

/** Returns null if the frame hasn't arrived completely. */
function cutFrame(bytes: Buffer): Frame | null {
  if (bytes.length < preludeBytes) return null;
  const sizeBytes = bytes.readUInt32BE(0);
  const headerBytes = bytes.readUInt32BE(4);
  if (bytes.readUInt32BE(8) !== crc32(bytes.subarray(0, 8))) throw damaged('a prelude has the wrong checksum');
  if (sizeBytes > maxFrameBytes) throw damaged(`an event is larger than ${maxFrameBytes} bytes`);
  const payloadStart = preludeBytes + headerBytes;
  const payloadEnd = sizeBytes - checksumBytes;
  if (payloadStart > payloadEnd) throw damaged('an event is shorter than its headers');
  if (bytes.length < sizeBytes) return null;
  if (bytes.readUInt32BE(payloadEnd) !== crc32(bytes.subarray(0, payloadEnd))) throw damaged('an event has the wrong checksum');
  return {
    headers: parseHeaders(bytes.subarray(preludeBytes, payloadStart)),
    payload: bytes.subarray(payloadStart, payloadEnd),
    sizeBytes,
  };
}

function damaged(reason: string): VendorError {
  return new VendorError('broken', `the event stream is damaged: ${reason}`);
}

const stringType = 7;
/**
 * Maps types to the size of their header values in bytes. Booleans, integers, timestamps and UUIDs have a fixed size,
 * which we need to skip these headers.
 */
const valueSizes: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 };
const bytesType = 6;

function parseHeaders(bytes: Buffer): Map<string, string> {
  const headers = new Map<string, string>();
  let at = 0;
  while (at < bytes.length) {
    const nameEnd = at + 1 + bytes.readUInt8(at);
    const name = bytes.toString('utf8', at + 1, nameEnd);
    const type = bytes.readUInt8(nameEnd);
    const hasLength = type === stringType || type === bytesType;
    const start = nameEnd + (hasLength ? 3 : 1);
    const size = hasLength ? bytes.readUInt16BE(nameEnd + 1) : valueSizes[type];
    if (size === undefined || start + size > bytes.length) throw damaged('a header is incomplete');
    if (type === stringType) headers.set(name, bytes.toString('utf8', start, start + size));
    at = start + size;
  }
  return headers;
}

function toServerSentEvent({ headers, payload }: Frame): string {
  const messageType = headers.get(':message-type') ?? 'event';
  if (messageType === 'event') {
    // The field `p` is ignored. It's padding that hides the length of the text.
    const encoded = asString(asObject(parseJson(payload.toString('utf8'))).bytes);
    if (encoded === null) return '';
    const data = Buffer.from(encoded, 'base64').toString('utf8');
    const type = /^\{"type":"(\w+)"/.exec(data)?.[1] ?? asString(asObject(parseJson(data)).type);
    return type === null ? '' : formatEvent(type, data);
  }
  const name = headers.get(':exception-type') ?? headers.get(':error-code') ?? 'unknown';
  const json = asObject(parseJson(payload.toString('utf8')));
  const message = asString(json.message) ?? asString(json.Message) ?? headers.get(':error-message') ?? name;
  const error = { type: ownValue(errorTypes, name.toLowerCase()) ?? 'api_error', message: `${name}: ${message}` };
  return formatEvent('error', JSON.stringify({ type: 'error', error }));
}

function formatEvent(name: string, data: string): string {
  // In JSON, a raw line break is always white space between tokens, so we can replace it without changing the data.
  return `event: ${name}\ndata: ${data.replaceAll(/[\r\n]+/g, ' ')}\n\n`;
}

const errorTypes: Readonly<Record<string, string>> = {
  throttlingexception: 'rate_limit_error',
  serviceunavailableexception: 'overloaded_error',
  modelnotreadyexception: 'overloaded_error',
  modeltimeoutexception: 'timeout_error',
  validationexception: 'invalid_request_error',
  accessdeniedexception: 'permission_error',
  resourcenotfoundexception: 'not_found_error',
};
