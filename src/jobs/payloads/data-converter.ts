/**
 * Creates the data converters of all Temporal clients and workers. They apply the payload rule, encryption and the
 * failure converter.
 */
import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { createEncryptionCodec, type OnMissingKey, type PayloadKeys } from './encryption.ts';
import { createPayloadCodec } from './payloads.ts';

/** Creates a converter that checks payloads and then encrypts them with the first key, if there is one. */
export function createDataConverter(payloadKeys: PayloadKeys = [], onMissingKey?: OnMissingKey): DataConverter {
  return {
    payloadCodecs: [createPayloadCodec(), createEncryptionCodec(payloadKeys, onMissingKey)],
    failureConverterPath: failureConverterPath(),
  };
}

/**
 * Encodes like `createDataConverter`, but decodes every payload as undefined. Use it for requests that must work even
 * if we don't have the keys of existing payloads.
 */
export function createWriteOnlyDataConverter(payloadKeys?: PayloadKeys): DataConverter {
  const { payloadCodecs = [], ...converter } = createDataConverter(payloadKeys);
  const nothing = { metadata: { encoding: Buffer.from('binary/null') } };
  return {
    ...converter,
    payloadCodecs: [...payloadCodecs, { encode: async (payloads) => payloads, decode: async (payloads) => payloads.map(() => nothing) }],
  };
}

/**
 * Returns the path of the failure converter, which the SDK loads itself. The workflow bundle has to contain the same
 * one.
 */
export function failureConverterPath(): string {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  return fileURLToPath(new URL(`./failure-converter${extension}`, import.meta.url));
}
