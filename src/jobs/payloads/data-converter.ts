/** How everything that passes between us and Temporal is written; the same for clients and workers. */
import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { createEncryptionCodec } from './encryption.ts';
import { createPayloadCodec } from './payloads.ts';

/** With keys everything is encrypted behind the check; the first of them encrypts. */
export function createDataConverter(payloadKeys: readonly Uint8Array[] = []): DataConverter {
  const [first, ...others] = payloadKeys;
  const encryption = first ? [createEncryptionCodec([first, ...others])] : [];
  return { payloadCodecs: [createPayloadCodec(), ...encryption], failureConverterPath: failureConverterPath() };
}

/** Path of the module that the SDK loads; a bundle of workflows must be built with it. */
export function failureConverterPath(): string {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  return fileURLToPath(new URL(`./failure-converter${extension}`, import.meta.url));
}
