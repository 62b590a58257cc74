/** Turns the request and response of a call into masked messages and extras that are linked by hash. */
import { type AssistantTurn, type CallContent, isPromptRoute, type PromptRoute, type SettledCall } from '../../core/call.ts';
import { type NormalMessage, normalizeMessage, parsePrompt } from '../../dialects/prompt/prompt.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import type { CallText } from './call-texts.ts';
import { type ChainPart, chainMessages, type ExtraPart, type HashedExtra, linkExtras, toHashedExtra } from './chain.ts';

export type CallWithText = SettledCall & { readonly metadata: { readonly route: PromptRoute }; readonly content: CallContent };

export function hasText(call: SettledCall): call is CallWithText {
  return call.content !== null && isPromptRoute(call.metadata.route);
}

export type MaskedText = Pick<CallText, 'context' | 'extras' | 'parts' | 'promptLength'>;

/** The masked prompt of a call. `addResponse` adds the response. */
export interface MaskedPrompt {
  readonly context: readonly ExtraPart[];
  readonly extras: readonly ExtraPart[];
  readonly parts: readonly ChainPart[];
  /**
   * The unmasked message at the end of the prompt that the response continues. It's also the last element of `parts`.
   */
  readonly prefill: NormalMessage | null;
}

/** `body` is the parsed JSON of the request. */
export function readPrompt(route: PromptRoute, body: unknown, masker: CredentialMasker): MaskedPrompt {
  const { messages, extras, isPrefilled } = parsePrompt(route, body);
  const hashed = extras.map(({ position, ...extra }) => ({ position, extra: toHashedExtra(masker.maskExtra(extra)) }));
  return {
    ...toExtraParts(hashed),
    parts: chainMessages(messages.map(masker.maskMessage)),
    prefill: isPrefilled ? (messages.at(-1) ?? null) : null,
  };
}

/** An extra and the number of messages before it. */
export interface PlacedExtra {
  readonly position: number;
  readonly extra: HashedExtra;
}

/**
 * Links tools and leading system prompts into one chain. All other extras form a second chain, so that it stays the
 * same if there's a date in the system prompt. Tools are sorted because their order has no meaning and some clients
 * change it with each call.
 */
export function linkContext(extras: readonly PlacedExtra[]): ExtraPart[] {
  const tools = extras.filter(({ extra }) => extra.role === 'tool');
  tools.sort(({ extra: one }, { extra: other }) => compare(one.details.type, other.details.type) || compare(one.textHash, other.textHash));
  return linkExtras([...tools, ...extras.filter(({ extra }) => extra.role !== 'tool')]);
}

export function toExtraParts(extras: readonly PlacedExtra[]): Pick<MaskedPrompt, 'context' | 'extras'> {
  return { context: linkContext(extras.filter(isContext)), extras: linkExtras(extras.filter((extra) => !isContext(extra))) };
}

/** Reports whether an extra belongs to the context. */
export function isContext({ position, extra }: PlacedExtra): boolean {
  return extra.role === 'tool' || (position === 0 && extra.role === 'system');
}

function compare(one: string | null, other: string | null): number {
  return one === other ? 0 : (one ?? '') < (other ?? '') ? -1 : 1;
}

export function addResponse(prompt: MaskedPrompt, turn: AssistantTurn | null, masker: CredentialMasker): MaskedText {
  const { context, extras, prefill } = prompt;
  const parts = prefill && turn ? prompt.parts.slice(0, -1) : prompt.parts;
  const response = turn && normalizeMessage('assistant', prefill ? { ...turn, text: prefill.text + turn.text } : turn);
  const added = response ? chainMessages([masker.maskMessage(response)], parts.at(-1)?.hash ?? null) : [];
  return { context, extras, parts: [...parts, ...added], promptLength: parts.length };
}
