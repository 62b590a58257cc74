/** The job that reads and masks a large prompt in the low-priority thread (`large-texts.ts`). */
import type { AssistantTurn, PromptRoute } from '../../core/call.ts';
import { createCredentialMasker } from '../text/credential-masker.ts';
import { type MaskedText, readText } from './text-reader.ts';

export interface LargeText {
  readonly route: PromptRoute;
  readonly bytes: Uint8Array;
  readonly response: AssistantTurn | null;
}

let masker: ReturnType<typeof createCredentialMasker> | undefined;

export function readLargeText({ route, bytes, response }: LargeText): MaskedText {
  masker ??= createCredentialMasker();
  const request = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return readText({ route, request, response }, masker);
}
