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

/** Fields of events on the responses route that contain no text of the model. */
const eventFields: ReadonlySet<string> = new Set([
  ...['type', 'item_id', 'sequence_number', 'output_index', 'content_index', 'summary_index', 'annotation_index'],
  ...['logprobs', 'obfuscation', 'partial_image_b64', 'response', 'delta'],
]);

export function createStreamTexts(route: TextRoute) {
  const joined = new Map<string, string>();
  /** Texts that arrive in one piece. Many of them repeat what the deltas contained. */
  const wholes = new Set<string>();
  let wholeLength = 0;

  const add = (key: string, text: string): void => {
    if (text !== '') joined.set(key, appendBounded(joined.get(key) ?? '', text));
  };
  const addWhole = (value: unknown): void => {
    for (const text of extractResponseTexts('messages', { content: [value] })) {
      if (wholes.has(text) || wholeLength + text.length > maxTextLength) continue;
      wholes.add(text);
      wholeLength += text.length;
    }
  };

  /** Joins each string with those at the same position of earlier deltas. */
  const addDeltas = (root: string, delta: unknown): void => {
    const stack: [key: string, value: unknown][] = [[root, delta]];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const [key, value] = next;
      if (typeof value === 'string') add(key, value);
      else if (Array.isArray(value)) {
        for (const [at, element] of value.entries()) stack.push([`${key}/${asObject(element).index ?? at}`, element]);
      } else {
        for (const [name, member] of Object.entries(asObject(value))) {
          if (name === 'arguments' && typeof member !== 'string') addWhole({ arguments: member });
          else if (name !== 'logprobs' && !(typeof member === 'string' && isApiString(name, member, asObject(value), false)))
            stack.push([`${key}/${name}`, member]);
        }
      }
    }
  };

  const addChat = (chunk: unknown): void => {
    for (const choice of asArray(asObject(chunk).choices)) addDeltas(String(asObject(choice).index), choice);
  };

  const addMessages = ({ type, index, message, content_block: block, delta }: Readonly<Record<string, unknown>>): void => {
    if (type === 'message_start') addWhole(asObject(message).content);
    if (type === 'message_delta') addWhole(delta);
    if (type === 'content_block_start') {
      const { text, thinking, ...others } = asObject(block);
      addDeltas(String(index), { text, thinking });
      addWhole(others);
    }
    if (type === 'content_block_delta') {
      const { citation, ...others } = asObject(delta);
      addDeltas(String(index), others);
      addWhole(citation);
    }
  };

  const addResponses = (data: Readonly<Record<string, unknown>>): void => {
    const { type, output_index: output, content_index: content, delta, response } = data;
    addDeltas(`${type}/${output}/${content}`, delta);
    // The last event contains the complete response. If the stream was interrupted before this event, only the deltas
    // and the complete parts are left.
    addWhole(asObject(response).output);
    addWhole(Object.fromEntries(Object.entries(data).filter(([name]) => !eventFields.has(name))));
  };

  return {
    add({ data }: SseEvent): void {
      const event = asObject(parseJson(data));
      if (route === 'chat') addChat(event);
      else if (route === 'messages') addMessages(event);
      else if (route === 'responses') addResponses(event);
    },
    texts: (): string[] => [...new Set([...joined.values(), ...wholes])],
  };
}
