/**
 * Decodes and encodes payloads for the remote codec protocol. Requests look like `{"payloads": [{"metadata": {name:
 * base64}, "data": base64}]}`.
 *
 * Payloads that aren't encrypted are returned unchanged. If we can't decrypt a payload, we return `{"message": reason}`
 * in its place. The UI then shows the reason, and can still show the other payloads.
 */
import type { Payload, PayloadCodec } from '@temporalio/common';
import { errorMessage } from '../core/error-messages.ts';
import { isObject } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';
import { createDataConverter } from '../temporal/payloads/data-converter.ts';
import { encryptionKeyIdOf } from '../temporal/payloads/encryption.ts';
import { PayloadRejectedError } from '../temporal/payloads/payloads.ts';

/**
 * Thrown if the request violates the protocol or our rules for payloads. Callers see the message, so it never quotes
 * the payload.
 */
export class BadPayloadsError extends Error {}

const base64Pattern = /^[A-Za-z0-9+/_-]*={0,2}$/;

export function createPayloadJsonCodec(payloadKeys: readonly Uint8Array[]) {
  const codecs = createDataConverter(payloadKeys).payloadCodecs ?? [];
  /**
   * Converts each payload in a JSON body, and returns the new JSON body. Throws BadPayloadsError if the body or a
   * payload is invalid.
   */
  const convert = async (body: string, convertPayload: (given: GivenPayload) => Promise<object>): Promise<string> =>
    JSON.stringify({ payloads: await Promise.all(parsePayloads(body).map(convertPayload)) });
  return {
    decode: (body: string) => convert(body, async ({ json, payload }) => (await decodePayload(codecs, payload)) ?? json),
    encode: (body: string) => convert(body, async ({ payload }) => toJson(await encodePayload(codecs, payload))),
  };
}

interface GivenPayload {
  readonly json: object;
  readonly payload: Payload;
}

/** Returns null if the payload isn't encrypted. */
async function decodePayload(codecs: readonly PayloadCodec[], payload: Payload): Promise<object | null> {
  if (encryptionKeyIdOf(payload) === null) return null;
  try {
    let decoded = [payload];
    for (const codec of codecs.toReversed()) decoded = await codec.decode(decoded);
    return toJson(decoded[0] ?? payload);
  } catch (error) {
    const message = `cannot be decrypted: ${errorMessage(error)}`;
    return toJson({ metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from(JSON.stringify({ message })) });
  }
}

async function encodePayload(codecs: readonly PayloadCodec[], { metadata, data }: Payload): Promise<Payload> {
  // If a payload is marked as a failure, its metadata can contain text. So we drop all metadata except for the
  // encoding.
  const encoding = metadata?.['encoding'];
  let encoded: Payload[] = [{ metadata: encoding ? { encoding } : {}, ...(data && { data }) }];
  try {
    for (const codec of codecs) encoded = await codec.encode(encoded);
  } catch (error) {
    if (error instanceof PayloadRejectedError) throw new BadPayloadsError(error.message);
    throw error;
  }
  const [payload] = encoded;
  if (!payload) throw new Error('expected the codec to return a payload');
  return payload;
}

function parsePayloads(body: string): GivenPayload[] {
  const value = parseJson(body);
  if (!isObject(value) || !Array.isArray(value.payloads)) throw new BadPayloadsError('the body must be JSON like {"payloads": [...]}');
  return value.payloads.map((json: unknown, index) => {
    const payload = isObject(json) ? parsePayload(json) : null;
    if (!isObject(json) || !payload) throw new BadPayloadsError(`payloads.${index}: must have metadata and data in base64`);
    return { json, payload };
  });
}

function parsePayload({ metadata = {}, data = '' }: Readonly<Record<string, unknown>>): Payload | null {
  if (!isBase64(data) || !isObject(metadata)) return null;
  const members: [string, Buffer][] = [];
  for (const [name, value] of Object.entries(metadata)) {
    if (!isBase64(value)) return null;
    members.push([name, Buffer.from(value, 'base64')]);
  }
  return { metadata: Object.fromEntries(members), data: Buffer.from(data, 'base64') };
}

function isBase64(value: unknown): value is string {
  return typeof value === 'string' && base64Pattern.test(value);
}

function toJson({ metadata, data }: Payload): object {
  const members = Object.entries(metadata ?? {}).map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]);
  return { metadata: Object.fromEntries(members), ...(data && { data: Buffer.from(data).toString('base64') }) };
}
