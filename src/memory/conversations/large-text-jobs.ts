/** Jobs for the low-priority thread that read large prompts. */
import { isPromptRoute, type PromptRoute } from '../../core/call.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { toBuffer } from '../../core/low-priority-thread.ts';
import type { BodyFacts } from '../../dialects/json/body-facts.ts';
import { type BodyUse, inspectBody } from '../../dialects/routes/inspect-body.ts';
import { completionToChat } from '../../dialects/translate/completions.ts';
import { createCredentialMasker } from '../text/credential-masker.ts';
import { type MaskedPrompt, readPrompt, toPlainPrompt } from './masked-prompt.ts';

export interface LargeBody extends BodyUse {
  readonly bytes: Uint8Array;
  /** True for a legacy completion, which we have to convert to a chat request. */
  readonly isCompletion: boolean;
}

export interface InspectedBody {
  readonly bytes: Uint8Array;
  readonly spans: BodySpans;
  readonly facts: BodyFacts;
  readonly prompt: MaskedPrompt | null;
}

/**
 * Inspects the body of a new call and reads its prompt for memory in one job, so that we only send the body to the
 * thread once.
 */
export function inspectLargeBody({ bytes, isCompletion, ...use }: LargeBody): InspectedBody {
  const body = isCompletion ? completionToChat(toBuffer(bytes)) : toBuffer(bytes);
  const { route } = use;
  return { bytes: body, ...inspectBody(body, use), prompt: isPromptRoute(route) ? readLargePrompt({ route, bytes: body }) : null };
}

/** The masker has a cache, so we keep one per thread. */
let masker: ReturnType<typeof createCredentialMasker> | undefined;

export function readLargePrompt({ route, bytes }: { readonly route: PromptRoute; readonly bytes: Uint8Array }): MaskedPrompt {
  masker ??= createCredentialMasker();
  return toPlainPrompt(readPrompt(route, parseJson(toBuffer(bytes).toString('utf8')), masker));
}
