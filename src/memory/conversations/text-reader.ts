/** Reads and masks the texts of settled calls. */
import { parseJson } from '../../core/json/narrow.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import { findLargePrompt } from './large-texts.ts';
import { addResponse, type CallWithText, type MaskedText, readPrompt } from './masked-prompt.ts';

/** Reads the texts of a batch. Hits of the response cache repeat a request and its response, so equal ones are read once. */
export function createTextReader(masker: CredentialMasker): (call: CallWithText) => MaskedText {
  /** By the text of the response, which hits of the same entry share: a key of all that is compared took 5 µs. */
  const hits = new Map<string, { readonly call: CallWithText; readonly text: MaskedText }[]>();
  return (call) => {
    if (call.result.cache !== 'hit') return readText(call, masker);
    const key = call.content.response?.text ?? '';
    const alike = hits.get(key) ?? [];
    const equal = alike.find((hit) => isSameText(hit.call, call));
    if (equal) return equal.text;
    const text = readText(call, masker);
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

function readText({ metadata, content }: CallWithText, masker: CredentialMasker): MaskedText {
  const prompt = findLargePrompt(content) ?? readPrompt(metadata.route, parseJson(content.request.toString('utf8')), masker);
  return addResponse(prompt, content.response, masker);
}
