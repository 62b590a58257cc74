/** The jobs that read large prompts in the low-priority thread. */
import { isPromptRoute, type PromptRoute } from '../../core/call.ts';
import { type ErrorCode, GatewayError } from '../../core/errors.ts';
import { parseJson } from '../../core/json/narrow.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import type { BodyFacts } from '../../dialects/json/body-facts.ts';
import { type BodyUse, inspectBody } from '../../dialects/routes/inspect-body.ts';
import { completionToChat } from '../../dialects/translate/completions.ts';
import { createCredentialMasker } from '../text/credential-masker.ts';
import { type MaskedPrompt, readPrompt } from './masked-prompt.ts';

export interface LargeBody extends BodyUse {
  readonly bytes: Uint8Array;
  /** The body is one of the legacy completions, which is sent as a chat. */
  readonly isCompletion: boolean;
}

export interface InspectedBody {
  readonly bytes: Uint8Array;
  readonly spans: BodySpans;
  readonly facts: BodyFacts;
  /** Null on routes without prompts. */
  readonly prompt: MaskedPrompt | null;
}

export interface RefusedBody {
  readonly refused: { readonly code: ErrorCode; readonly message: string };
}

/** Inspects the body of a call that was received, and reads its prompt for memory, so that we send it to the thread only once. */
export function inspectLargeBody({ bytes, isCompletion, ...use }: LargeBody): InspectedBody | RefusedBody {
  try {
    const body = isCompletion ? completionToChat(toBuffer(bytes)) : toBuffer(bytes);
    const { route } = use;
    return { bytes: body, ...inspectBody(body, use), prompt: isPromptRoute(route) ? readLargePrompt({ route, bytes: body }) : null };
  } catch (error) {
    // Only plain errors can be sent from thread to thread.
    if (error instanceof GatewayError) return { refused: { code: error.code, message: error.message } };
    throw error;
  }
}

/** The thread's own, because a masker remembers texts. */
let masker: ReturnType<typeof createCredentialMasker> | undefined;

/** Reads the prompt of a call in the journal. */
export function readLargePrompt({ route, bytes }: { readonly route: PromptRoute; readonly bytes: Uint8Array }): MaskedPrompt {
  masker ??= createCredentialMasker();
  return readPrompt(route, parseJson(toBuffer(bytes).toString('utf8')), masker);
}

function toBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
