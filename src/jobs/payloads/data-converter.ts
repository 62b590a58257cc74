/** The data converter of every Temporal client and worker: the payload rule, encryption and the failure converter. */
import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { createEncryptionCodec } from './encryption.ts';
import { createPayloadCodec } from './payloads.ts';

/** Payloads are checked first and then, when there are keys, encrypted with the first key. */
export function createDataConverter(payloadKeys: readonly Uint8Array[] = []): DataConverter {
  const [first, ...others] = payloadKeys;
  const encryption = first ? [createEncryptionCodec([first, ...others])] : [];
  return { payloadCodecs: [createPayloadCodec(), ...encryption], failureConverterPath: failureConverterPath() };
}

/** Path of the module that the SDK loads. The workflow bundle must be built with the same one. */
export function failureConverterPath(): string {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  return fileURLToPath(new URL(`./failure-converter${extension}`, import.meta.url));
}
