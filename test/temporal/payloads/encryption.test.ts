import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { createEncryptionCodec } from '../../../src/temporal/payloads/encryption.ts';

const value = { conversation_id: '0198c5f2-7d2e-7000-8000-000000000001', opened: 3 };
const payload = (): Payload => defaultPayloadConverter.toPayload(value);

async function roundTrip(writing: Uint8Array, reading: readonly [Uint8Array, ...Uint8Array[]]): Promise<unknown> {
  const written = await createEncryptionCodec([writing]).encode([payload()]);
  const [read] = await createEncryptionCodec(reading).decode(written);
  return defaultPayloadConverter.fromPayload(read as Payload);
}

describe('encrypted payloads', () => {
  const [old, young] = [randomBytes(32), randomBytes(32)];

  test('decrypts a payload only with its key', async () => {
    expect(await roundTrip(old, [old])).toEqual(value);
    const [written] = await createEncryptionCodec([old]).encode([payload()]);
    expect(Buffer.from(written?.metadata?.['encoding'] ?? []).toString()).toBe('binary/encrypted');
    const bytes = Buffer.concat(
      [...Object.values(written?.metadata ?? {}), written?.data ?? new Uint8Array()].map((part) => Buffer.from(part)),
    );
    expect(bytes.toString('latin1')).not.toMatch(/0198c5f2|conversation|json/);
    expect(bytes.includes(old)).toBe(false);
  });

  test('encrypts payloads with the first key and decrypts them with any of the keys', async () => {
    let keys = [old];
    const codec = createEncryptionCodec(() => keys);
    const before = await codec.encode([payload()]);
    keys = [young, old];
    const after = await codec.encode([payload()]);
    expect(await createEncryptionCodec([young]).decode(after)).toEqual([payload()]);
    expect(await codec.decode([...before, ...after])).toEqual([payload(), payload()]);
    keys = [young];
    await expect(codec.decode(before)).rejects.toThrow('TEMPORAL_PAYLOAD_KEY does not contain the key');
  });

  test("doesn't encrypt the notes that operators read in the Temporal UI", async () => {
    const codec = createEncryptionCodec([old]);
    for (const open of ['cleanup: old conversations', { definition: { type: 'learningBatch' }, currentDetails: '' }]) {
      const [written] = await codec.encode([defaultPayloadConverter.toPayload(open)]);
      expect(defaultPayloadConverter.fromPayload(written as Payload)).toEqual(open);
    }
    for (const hidden of [{ batch_id: 'b1' }, ['b1'], 3, 'two terms', 'acme-support']) {
      const [written] = await codec.encode([defaultPayloadConverter.toPayload(hidden)]);
      expect(Buffer.from(written?.metadata?.['encoding'] ?? []).toString()).toBe('binary/encrypted');
    }
  });

  test('never encrypts a value to the same bytes twice', async () => {
    const [first, second] = await createEncryptionCodec([old]).encode([payload(), payload()]);
    expect(Buffer.from(first?.data ?? [])).not.toEqual(Buffer.from(second?.data ?? []));
  });

  test('decrypts payloads with the previous key during a key rotation', async () => {
    expect(await roundTrip(old, [young, old])).toEqual(value);
    expect(await roundTrip(young, [old, young])).toEqual(value);
  });

  test('includes the fingerprint of an unknown payload key in the error', async () => {
    await expect(roundTrip(old, [young])).rejects.toThrow(/^TEMPORAL_PAYLOAD_KEY does not contain the key [0-9a-f]{16}$/);
  });

  test('rejects an encrypted payload that was modified or truncated', async () => {
    const codec = createEncryptionCodec([old]);
    const [written] = await codec.encode([payload()]);
    const changed = Buffer.from(written?.data ?? []);
    changed.writeUInt8(changed.readUInt8(20) ^ 1, 20);
    await expect(codec.decode([{ ...written, data: changed }])).rejects.toThrow();
    await expect(codec.decode([{ ...written, data: changed.subarray(0, 10) }])).rejects.toThrow('truncated');
  });

  test('still reads unencrypted payloads that were written before a key was set', async () => {
    expect(await createEncryptionCodec([old]).decode([payload()])).toEqual([payload()]);
  });

  test('encrypts an undefined value', async () => {
    const codec = createEncryptionCodec([old]);
    const nothing = defaultPayloadConverter.toPayload(undefined);
    const [read] = await codec.decode(await codec.encode([nothing]));
    expect(defaultPayloadConverter.fromPayload(read as Payload)).toBeUndefined();
  });
});
