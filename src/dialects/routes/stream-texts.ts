/**
 * Collects the text of a streamed response for content rules, including all choices, thinking and tool calls. Deltas
 * with the same position are joined, so that text is checked as a whole even if it's split across deltas.
 */
import type { TextRoute } from '../../core/call.ts';
import { asArray, asObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { SseEvent } from '../../core/sse.ts';
import { appendBounded, maxTextLength } from '../json/bounded-text.ts';
import { extractResponseTexts, isApiString } from './rule-texts.ts';

/** Fields of events on the responses route that contain no text of the model, or that are handled separately. */
const eventFields: ReadonlySet<string> = new Set([
  ...['type', 'item_id', 'sequence_number', 'output_index', 'content_index', 'summary_index', 'annotation_index'],
  ...['logprobs', 'obfuscation', 'partial_image_b64', 'response', 'delta'],
]);
/** Fields of chat choices that repeat the text or describe it. */
const choiceFields: ReadonlySet<string> = new Set(['message', 'logprobs', 'content_filter_results', 'content_filter_offsets']);

/** Returns part of a key. Vendors could send anything as an index. */
const toLabel = (index: unknown): string => (typeof index === 'number' || typeof index === 'string' ? String(index) : '');

/** Skips the `choiceFields` of a choice, and audio, because that's base64. */
function isSkipped(key: string, name: string): boolean {
  return key.includes('/') ? name === 'data' && key.endsWith('/audio') : choiceFields.has(name);
}

export function createStreamTexts(route: TextRoute) {
  const joined = new Map<string, string>();
  /** Texts that arrived in one piece. Many of them repeat what the deltas contained. */
  const complete = new Set<string>();
  let completeLength = 0;
  /** The latest message of each choice. Perplexity repeats everything so far in each chunk. */
  const messages = new Map<string, unknown>();

  const add = (key: string, text: string): void => {
    if (text !== '') joined.set(key, appendBounded(joined.get(key) ?? '', text));
  };
  const addComplete = (value: unknown): void => {
    for (const text of extractResponseTexts('messages', { content: [value] })) {
      if (complete.has(text) || completeLength + text.length > maxTextLength) continue;
      complete.add(text);
      completeLength += text.length;
    }
  };

  /** Joins each string with those at the same position of earlier deltas. */
  const addDeltas = (root: string, delta: unknown): void => {
    const stack: [key: string, value: unknown][] = [[root, delta]];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const [key, value] = next;
      if (typeof value === 'string') add(key, value);
      else if (Array.isArray(value)) {
        for (const [at, element] of value.entries()) stack.push([`${key}/${toLabel(asObject(element).index ?? at)}`, element]);
      } else {
        for (const [name, member] of Object.entries(asObject(value))) {
          if (name === 'arguments' && typeof member !== 'string') addComplete({ arguments: member });
          else if (!isSkipped(key, name) && !(typeof member === 'string' && isApiString(name, member, asObject(value), false)))
            stack.push([`${key}/${name}`, member]);
        }
      }
    }
  };

  const addChat = (chunk: unknown): void => {
    for (const choice of asArray(asObject(chunk).choices)) {
      const { index, message } = asObject(choice);
      if (message !== undefined) messages.set(toLabel(index), message);
      addDeltas(toLabel(index), choice);
    }
  };

  const addMessages = ({ type, index, message, content_block: block, delta }: Readonly<Record<string, unknown>>): void => {
    if (type === 'message_start') addComplete(asObject(message).content);
    if (type === 'message_delta') addComplete(asObject(delta).stop_sequence);
    if (type === 'content_block_start') {
      const { text, thinking, ...others } = asObject(block);
      addDeltas(toLabel(index), { text, thinking });
      addComplete(others);
    }
    if (type === 'content_block_delta') {
      const { citation, ...others } = asObject(delta);
      addDeltas(toLabel(index), others);
      addComplete(citation);
    }
  };

  const addResponses = (data: Readonly<Record<string, unknown>>): void => {
    const { type, output_index: output, content_index: content, delta, response } = data;
    addDeltas([type, output, content].map(toLabel).join('/'), delta);
    // The last event contains the complete response. If the stream was interrupted before this event, only the deltas
    // and the complete parts are left.
    addComplete(asObject(response).output);
    for (const [name, value] of Object.entries(data))
      if (!eventFields.has(name)) addComplete(typeof value === 'string' ? { [name]: value } : value);
  };

  return {
    add({ data }: SseEvent): void {
      const event = asObject(parseJson(data));
      if (route === 'chat') addChat(event);
      else if (route === 'messages') addMessages(event);
      else if (route === 'responses') addResponses(event);
    },
    texts(): string[] {
      for (const message of messages.values()) addComplete(message);
      messages.clear();
      return [...new Set([...joined.values(), ...complete])];
    },
  };
}
