/**
 * The second line behind the rule of `payloads.ts`: with a key configured, what passes to Temporal is encrypted with AES-256-GCM, so that its
 * database, its web UI and its backups hold no ids either. Workflow ids, types and search attributes are never encrypted; no codec sees them.
 *
 * The first key encrypts; every key decrypts. A key is known by its fingerprint, which each payload carries. To change keys: add the new one
 * behind the old one everywhere, then put it first, then take the old one away when its runs are forgotten (retention). What was written
 * before there was a key is read as it stands.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { isObject, objectOf, parseJson } from '../../core/json/narrow.ts';

const cipher = 'aes-256-gcm';
const encodingName = 'binary/encrypted';
/** Recommended for GCM; random, which is safe for 2^32 payloads of a key. */
const nonceBytes = 12;
const tagBytes = 16;

/** Keys of 32 bytes, at least one. */
export function createEncryptionCodec(keys: readonly [Uint8Array, ...Uint8Array[]]): PayloadCodec {
  const known = new Map(keys.map((key) => [fingerprintOf(key), key]));
  const [first] = keys;
  const firstId = fingerprintOf(first);
  return {
    encode: async (payloads) => payloads.map((payload) => encrypt(payload, first, firstId)),
    decode: async (payloads) =>
      payloads.map((payload) => {
        if (utf8Of(payload.metadata?.['encoding']) !== encodingName) return payload;
        const id = utf8Of(payload.metadata?.['encryption-key-id']);
        const key = known.get(id);
        if (!key) throw new Error(`TEMPORAL_PAYLOAD_KEY does not hold the key ${/^[0-9a-f]{16}$/.test(id) ? id : 'of a payload'}`);
        return decrypt(payload, key);
      }),
  };
}

function encrypt(payload: Payload, key: Uint8Array, keyId: string): Payload {
  const nonce = randomBytes(nonceBytes);
  const sealing = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes });
  const sealed = Buffer.concat([nonce, sealing.update(writePayload(payload)), sealing.final(), sealing.getAuthTag()]);
  return {
    metadata: { encoding: Buffer.from(encodingName), 'encryption-cipher': Buffer.from(cipher), 'encryption-key-id': Buffer.from(keyId) },
    data: sealed,
  };
}

function decrypt({ data }: Payload, key: Uint8Array): Payload {
  const sealed = Buffer.from(data ?? []);
  if (sealed.length < nonceBytes + tagBytes) throw new Error('an encrypted payload is cut');
  const opening = createDecipheriv(cipher, key, sealed.subarray(0, nonceBytes), { authTagLength: tagBytes });
  opening.setAuthTag(sealed.subarray(-tagBytes));
  return readPayload(Buffer.concat([opening.update(sealed.subarray(nonceBytes, -tagBytes)), opening.final()]));
}

function writePayload({ metadata, data }: Payload): Buffer {
  const members = Object.entries(metadata ?? {}).map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]);
  return Buffer.from(JSON.stringify({ metadata: Object.fromEntries(members), data: data ? Buffer.from(data).toString('base64') : null }));
}

function readPayload(bytes: Buffer): Payload {
  const written = parseJson(bytes.toString());
  if (!isObject(written)) throw new Error('an encrypted payload holds no payload');
  const metadata = Object.entries(objectOf(written['metadata'])).map(([name, value]) => [name, Buffer.from(String(value), 'base64')]);
  const data = written['data'];
  return { metadata: Object.fromEntries(metadata), ...(typeof data === 'string' && { data: Buffer.from(data, 'base64') }) };
}

function fingerprintOf(key: Uint8Array): string {
  return createHash('sha256').update('gateway payload key ').update(key).digest('hex').slice(0, 16);
}

function utf8Of(bytes: Uint8Array | null | undefined): string {
  return bytes ? Buffer.from(bytes).toString() : '';
}
