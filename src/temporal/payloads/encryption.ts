/**
 * Encrypts payloads with AES-256-GCM if a key is configured, so that not even ids are readable in Temporal's database,
 * web UI and backups. This is defense in depth on top of the rule in `payloads.ts`. Workflow ids, types, search
 * attributes and notes aren't encrypted, because they don't pass through a codec or have to stay readable.
 *
 * The first key encrypts, and all keys can decrypt. Each payload contains the fingerprint of its key. Payloads without
 * encryption are decoded unchanged.
 *
 * @see docs/architecture/durable-work.md#payload-keys
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { asObject, isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { isPublic } from './payloads.ts';

const cipherName = 'aes-256-gcm';
const encodingName = 'binary/encrypted';
/** The recommended nonce length for GCM. With random nonces, one key can safely encrypt 2^32 payloads. */
const nonceBytes = 12;
const tagBytes = 16;

class MissingPayloadKeyError extends Error {
  override readonly name = 'MissingPayloadKeyError';

  constructor(keyId: string) {
    super(`TEMPORAL_PAYLOAD_KEY does not contain the key ${keyId}`);
  }
}

/**
 * Called if we don't have the key that a payload was encrypted with. The workflow id is only set if the SDK knows it.
 */
export type OnMissingKey = (keyId: string, workflowId?: string) => void;

/** Keys of 32 bytes. A function has to return the same array until the keys change. */
export type PayloadKeys = readonly Uint8Array[] | (() => readonly Uint8Array[]);

/** Creates the encryption codec. Without a key, payloads stay unencrypted. */
export function createEncryptionCodec(keys: PayloadKeys, onMissingKey: OnMissingKey = () => undefined): PayloadCodec {
  let known: { readonly keys: readonly Uint8Array[]; readonly byId: ReadonlyMap<string, Uint8Array> } | null = null;
  const keysById = (): ReadonlyMap<string, Uint8Array> => {
    const current = typeof keys === 'function' ? keys() : keys;
    if (known?.keys !== current) known = { keys: current, byId: new Map(current.map((key) => [keyFingerprint(key), key])) };
    return known.byId;
  };
  return {
    async encode(payloads) {
      const [[id, key] = []] = keysById();
      return payloads.map((payload) => (id === undefined || !key || isPublic(payload) ? payload : encrypt(payload, key, id)));
    },
    decode: async (payloads, context) =>
      payloads.map((payload) => {
        if (toUtf8(payload.metadata?.['encoding']) !== encodingName) return payload;
        const id = toUtf8(payload.metadata?.['encryption-key-id']);
        const key = keysById().get(id);
        if (key) return decrypt(payload, key);
        const keyId = /^[0-9a-f]{16}$/.test(id) ? id : 'of a payload';
        onMissingKey(keyId, context?.workflowId);
        throw new MissingPayloadKeyError(keyId);
      }),
  };
}

function encrypt(payload: Payload, key: Uint8Array, keyId: string): Payload {
  const nonce = randomBytes(nonceBytes);
  const encryptor = createCipheriv(cipherName, key, nonce, { authTagLength: tagBytes });
  const ciphertext = Buffer.concat([nonce, encryptor.update(serializePayload(payload)), encryptor.final(), encryptor.getAuthTag()]);
  return {
    metadata: {
      encoding: Buffer.from(encodingName),
      'encryption-cipher': Buffer.from(cipherName),
      'encryption-key-id': Buffer.from(keyId),
    },
    data: ciphertext,
  };
}

function decrypt({ data }: Payload, key: Uint8Array): Payload {
  const ciphertext = Buffer.from(data ?? []);
  if (ciphertext.length < nonceBytes + tagBytes) throw new Error('the encrypted payload is truncated');
  const decryptor = createDecipheriv(cipherName, key, ciphertext.subarray(0, nonceBytes), { authTagLength: tagBytes });
  decryptor.setAuthTag(ciphertext.subarray(-tagBytes));
  return parsePayload(Buffer.concat([decryptor.update(ciphertext.subarray(nonceBytes, -tagBytes)), decryptor.final()]));
}

function serializePayload({ metadata, data }: Payload): Buffer {
  const members = Object.entries(metadata ?? {}).map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]);
  return Buffer.from(JSON.stringify({ metadata: Object.fromEntries(members), data: data ? Buffer.from(data).toString('base64') : null }));
}

function parsePayload(bytes: Buffer): Payload {
  const serialized = parseJson(bytes.toString());
  if (!isObject(serialized)) throw new Error('the decrypted data is not a payload');
  const metadata = Object.entries(asObject(serialized['metadata'])).map(([name, value]) => [name, Buffer.from(String(value), 'base64')]);
  const data = serialized['data'];
  return { metadata: Object.fromEntries(metadata), ...(typeof data === 'string' && { data: Buffer.from(data, 'base64') }) };
}

export function encryptionKeyIdOf({ metadata }: Payload): string | null {
  return toUtf8(metadata?.['encoding']) === encodingName ? toUtf8(metadata?.['encryption-key-id']) : null;
}

/** Returns 16 hexadecimal digits that identify a key without revealing it. */
export function keyFingerprint(key: Uint8Array): string {
  return createHash('sha256').update('gateway payload key ').update(key).digest('hex').slice(0, 16);
}

function toUtf8(bytes: Uint8Array | null | undefined): string {
  return bytes ? Buffer.from(bytes).toString() : '';
}
