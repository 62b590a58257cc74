/** The jobs that read large prompts in the low-priority thread. */
import { isPromptRoute, type PromptRoute } from '../../core/call.ts';
import { parseJson } from '../../core/json/narrow.ts';
import { type Inspected, type Inspection, inspectBody } from '../../dialects/routes/inspect-body.ts';
import { createCredentialMasker } from '../text/credential-masker.ts';
import { type MaskedPrompt, readPrompt } from './masked-prompt.ts';

export interface LargeRequest {
  readonly route: PromptRoute;
  readonly bytes: Uint8Array;
}

/** The thread's own, because a masker remembers texts. */
let masker: ReturnType<typeof createCredentialMasker> | undefined;

/** Inspects the body of a call that was received, and reads its prompt for memory, so that we send it to the thread only once. */
export function inspectLargeCall(inspection: Inspection): { readonly prompt: MaskedPrompt | null } & Inspected {
  const inspected = inspectBody(inspection);
  const { route } = inspection;
  const isRead = 'bytes' in inspected && isPromptRoute(route);
  return { ...inspected, prompt: isRead ? readLargePrompt({ route, bytes: inspected.bytes }) : null };
}

/** Reads the prompt of a call in the journal. */
export function readLargePrompt({ route, bytes }: LargeRequest): MaskedPrompt {
  masker ??= createCredentialMasker();
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  return readPrompt(route, parseJson(text), masker);
}
