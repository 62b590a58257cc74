/** Turns the request and the response of a call into masked messages that are linked by hash. */
import { type AssistantTurn, type CallContent, isPromptRoute, type PromptRoute, type SettledCall } from '../../core/call.ts';
import { type NormalMessage, normalizeMessage, parsePrompt } from '../../dialects/prompt/prompt.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import type { CallText } from './call-texts.ts';
import { type ChainPart, chainMessages } from './chain.ts';

export type CallWithText = SettledCall & { readonly metadata: { readonly route: PromptRoute }; readonly content: CallContent };

export function hasText(call: SettledCall): call is CallWithText {
  return call.content !== null && isPromptRoute(call.metadata.route);
}

export type MaskedText = Pick<CallText, 'extras' | 'parts' | 'promptLength'>;

/** The masked prompt of a call, to which `addResponse` adds the response. */
export interface MaskedPrompt {
  readonly extras: CallText['extras'];
  readonly parts: readonly ChainPart[];
  /** The message at the end of the prompt that the response continues, as it was sent. It is also the last one of `parts`. */
  readonly prefill: NormalMessage | null;
}

/** `body` is the parsed JSON of the request. */
export function readPrompt(route: PromptRoute, body: unknown, masker: CredentialMasker): MaskedPrompt {
  const { messages, extras, isPrefilled } = parsePrompt(route, body);
  return {
    extras: extras.map(masker.maskExtra),
    parts: chainMessages(messages.map(masker.maskMessage)),
    prefill: isPrefilled ? (messages.at(-1) ?? null) : null,
  };
}

export function addResponse({ extras, parts, prefill }: MaskedPrompt, turn: AssistantTurn | null, masker: CredentialMasker): MaskedText {
  const prompt = prefill && turn ? parts.slice(0, -1) : parts;
  const response = turn && normalizeMessage('assistant', prefill ? { ...turn, text: prefill.text + turn.text } : turn);
  const added = response ? chainMessages([masker.maskMessage(response)], prompt.at(-1)?.hash ?? null) : [];
  return { extras, parts: [...prompt, ...added], promptLength: prompt.length };
}
