import { findLargePrompt } from './large-texts.ts';
import type { CallWithText, MaskedText } from './masked-prompt.ts';
import type { PromptReader } from './prompt-reader.ts';

/**
 * Returns a function that reads the text of a call. In a batch, several calls may have been answered from the same
 * cache entry, and if they're identical we read their text only once.
 */
export function createTextReader(reader: PromptReader): (call: CallWithText) => MaskedText {
  /**
   * The cache hits of this batch, keyed by response text. Hits with the same text are then compared field by field,
   * because putting the request into the key would take 5 µs per call.
   */
  const hits = new Map<string, { readonly call: CallWithText; readonly text: MaskedText }[]>();
  return (call) => {
    if (call.result.cache !== 'hit') return readText(call, reader);
    const key = call.content.response?.text ?? '';
    const alike = hits.get(key) ?? [];
    const equal = alike.find((hit) => isSameText(hit.call, call));
    if (equal) return equal.text;
    const text = readText(call, reader);
    hits.set(key, [...alike, { call, text }]);
    return text;
  };
}

function isSameText(one: CallWithText, other: CallWithText): boolean {
  if (one.metadata.route !== other.metadata.route || !one.content.request.equals(other.content.request)) return false;
  const [oneCalls, otherCalls] = [one.content.response?.toolCalls, other.content.response?.toolCalls];
  if (oneCalls?.length === 0 && otherCalls?.length === 0) return true;
  return JSON.stringify(oneCalls) === JSON.stringify(otherCalls);
}

function readText({ metadata, content }: CallWithText, reader: PromptReader): MaskedText {
  const prompt = findLargePrompt(content) ?? reader.readPrompt(metadata.projectId, metadata.route, content.request);
  return reader.addResponse(prompt, content.response);
}
