/** Turns the request and response of a call into masked messages and extras that are linked by hash. */
import { type AssistantTurn, type CallContent, isPromptRoute, type PromptRoute, type SettledCall } from '../../core/call.ts';
import { type NormalMessage, normalizeMessage, parsePrompt } from '../../dialects/prompt/prompt.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import type { CallText } from './call-texts.ts';
import { type ChainPart, chainMessages, type ExtraPart, type HashedExtra, linkExtras, toHashedExtra } from './chain.ts';
import { readPlainParameters } from './request-parameters.ts';

export type CallWithText = SettledCall & { readonly metadata: { readonly route: PromptRoute }; readonly content: CallContent };

export function hasText(call: SettledCall): call is CallWithText {
  return call.content !== null && isPromptRoute(call.metadata.route);
}

export type MaskedText = Pick<CallText, 'context' | 'extras' | 'parts' | 'promptLength'> & Pick<MaskedPrompt, 'parameters'>;

/** The prompt of a call, with its credentials masked. Use `addResponse` to add the response. */
export interface MaskedPrompt {
  readonly context: readonly ExtraPart[];
  readonly extras: readonly ExtraPart[];
  readonly parts: readonly ChainPart[];
  /**
   * The prefill, i.e. the last message of the prompt if the response continues it. Unlike the same message in `parts`,
   * it isn't masked yet.
   */
  readonly prefill: NormalMessage | null;
  /** The request's parameters as JSON (see `readPlainParameters`). Only set if the whole request was parsed. */
  readonly parameters?: string | null | undefined;
}

/** `body` is the request as parsed JSON. */
export function readPrompt(route: PromptRoute, body: unknown, masker: CredentialMasker): MaskedPrompt {
  const { messages, extras, isPrefilled } = parsePrompt(route, body);
  const hashed = extras.map(({ position, ...extra }) => ({ position, extra: toHashedExtra(masker.maskExtra(extra)) }));
  return {
    ...toExtraParts(hashed),
    parts: chainMessages(messages.map(masker.maskMessage)),
    prefill: isPrefilled ? (messages.at(-1) ?? null) : null,
    parameters: readPlainParameters(body),
  };
}

/** Replaces each getter with its value. Getters of classes are lost when an object is sent to another thread. */
export function toPlainPrompt({ context, extras, parts, prefill }: MaskedPrompt): MaskedPrompt {
  const toPlainExtra = (extra: ExtraPart): ExtraPart => ({ ...extra, text: extra.text });
  return {
    context: context.map(toPlainExtra),
    extras: extras.map(toPlainExtra),
    parts: parts.map((part) => ({ ...part, message: part.message })),
    prefill,
  };
}

/** A part of the prompt that isn't a message, with the number of messages that come before it as its `position`. */
export interface PlacedExtra {
  readonly position: number;
  readonly extra: HashedExtra;
}

/**
 * Links the tools and the leading system prompts into a chain. All other extras are in a separate chain, so that it
 * stays the same even if a system prompt contains the current date. We sort the tools because their order doesn't
 * matter, and some clients change it with each call.
 */
export function linkContext(extras: readonly PlacedExtra[]): ExtraPart[] {
  const tools = extras.filter(({ extra }) => extra.role === 'tool');
  tools.sort(({ extra: one }, { extra: other }) => compare(one.details.type, other.details.type) || compare(one.textHash, other.textHash));
  return linkExtras([...tools, ...extras.filter(({ extra }) => extra.role !== 'tool')]);
}

export function toExtraParts(extras: readonly PlacedExtra[]): Pick<MaskedPrompt, 'context' | 'extras'> {
  if (extras.length === 0) return noExtras;
  return { context: linkContext(extras.filter(isContext)), extras: linkExtras(extras.filter((extra) => !isContext(extra))) };
}

const noExtras: Pick<MaskedPrompt, 'context' | 'extras'> = { context: [], extras: [] };

export function isContext({ position, extra }: PlacedExtra): boolean {
  return extra.role === 'tool' || (position === 0 && extra.role === 'system');
}

function compare(one: string | null, other: string | null): number {
  return one === other ? 0 : (one ?? '') < (other ?? '') ? -1 : 1;
}

export function addResponse(prompt: MaskedPrompt, turn: AssistantTurn | null, masker: CredentialMasker): MaskedText {
  const { context, extras, prefill, parameters } = prompt;
  const parts = prompt.parts.slice();
  if (prefill && turn) parts.pop();
  const promptLength = parts.length;
  const response = turn && normalizeMessage('assistant', prefill ? { ...turn, text: prefill.text + turn.text } : turn);
  if (response) parts.push(...chainMessages([masker.maskMessage(response)], parts.at(-1)?.hash ?? null));
  return { context, extras, parts, promptLength, parameters };
}
