/** The data converter of every Temporal client and worker: the payload rule, encryption and the failure converter. */
import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { createEncryptionCodec, type OnMissingKey, type PayloadKeys } from './encryption.ts';
import { createPayloadCodec } from './payloads.ts';

/** Payloads are checked first and then, when there are keys, encrypted with the first key. */
export function createDataConverter(payloadKeys: PayloadKeys = [], onMissingKey?: OnMissingKey): DataConverter {
  return {
    payloadCodecs: [createPayloadCodec(), createEncryptionCodec(payloadKeys, onMissingKey)],
    failureConverterPath: failureConverterPath(),
  };
}

/** Encodes like `createDataConverter` and decodes every payload as undefined: for requests that must not depend on keys of others. */
export function createWriteOnlyDataConverter(payloadKeys?: PayloadKeys): DataConverter {
  const { payloadCodecs = [], ...converter } = createDataConverter(payloadKeys);
  const nothing = { metadata: { encoding: Buffer.from('binary/null') } };
  return {
    ...converter,
    payloadCodecs: [...payloadCodecs, { encode: async (payloads) => payloads, decode: async (payloads) => payloads.map(() => nothing) }],
  };
}

/** Path of the module that the SDK loads. The workflow bundle must be built with the same one. */
export function failureConverterPath(): string {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  return fileURLToPath(new URL(`./failure-converter${extension}`, import.meta.url));
}
