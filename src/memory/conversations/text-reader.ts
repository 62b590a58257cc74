/** Reads and masks the texts of settled calls. */
import { type CallContent, isPromptRoute, type PromptRoute, type SettledCall } from '../../core/call.ts';
import { parseJson } from '../../core/json/narrow.ts';
import { normalizeMessage, parsePrompt } from '../../dialects/prompt/prompt.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import type { CallText } from './call-texts.ts';
import { chainMessages } from './chain.ts';

export type CallWithText = SettledCall & { readonly metadata: { readonly route: PromptRoute }; readonly content: CallContent };

export function hasText(call: SettledCall): call is CallWithText {
  return call.content !== null && isPromptRoute(call.metadata.route);
}

export type MaskedText = Pick<CallText, 'extras' | 'parts' | 'promptLength'>;

/** Reads the texts of a batch. Hits of the response cache repeat a request and its response, so equal ones are read once. */
export function createTextReader(masker: CredentialMasker): (call: CallWithText) => MaskedText {
  /** By the text of the response, which hits of the same entry share: a key of all that is compared took 5 µs. */
  const hits = new Map<string, { readonly call: CallWithText; readonly text: MaskedText }[]>();
  return (call) => {
    const readable = { ...call.content, route: call.metadata.route };
    if (call.result.cache !== 'hit') return readText(readable, masker);
    const key = call.content.response?.text ?? '';
    const alike = hits.get(key) ?? [];
    const equal = alike.find((hit) => isSameText(hit.call, call));
    if (equal) return equal.text;
    const text = readText(readable, masker);
    hits.set(key, [...alike, { call, text }]);
    return text;
  };
}

/** Whether calls with the same text of the response have the same route, request and tool calls. */
function isSameText(one: CallWithText, other: CallWithText): boolean {
  if (one.metadata.route !== other.metadata.route || !one.content.request.equals(other.content.request)) return false;
  const [oneCalls, otherCalls] = [one.content.response?.toolCalls, other.content.response?.toolCalls];
  if (oneCalls?.length === 0 && otherCalls?.length === 0) return true;
  return JSON.stringify(oneCalls) === JSON.stringify(otherCalls);
}

type ReadableCall = Pick<CallContent, 'request' | 'response'> & { readonly route: PromptRoute };

export function readText({ route, request, response: turn }: ReadableCall, masker: CredentialMasker): MaskedText {
  const { messages, extras, isPrefilled } = parsePrompt(route, parseJson(request.toString('utf8')));
  const partial = isPrefilled ? messages.at(-1) : undefined;
  const prompt = partial && turn ? messages.slice(0, -1) : messages;
  const response = turn ? normalizeMessage('assistant', partial ? { ...turn, text: partial.text + turn.text } : turn) : null;
  const masked = prompt.map(masker.maskMessage);
  if (response) masked.push(masker.maskMessage(response));
  return { extras: extras.map(masker.maskExtra), parts: chainMessages(masked), promptLength: prompt.length };
}
