/**
 * Collects the text of a streamed response for content rules, including all choices, thinking and tool calls. Deltas
 * with the same position are joined, so that text is checked as a whole even if it's split across deltas.
 */
import type { TextRoute } from '../../core/call.ts';
import { asArray, asObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { SseEvent } from '../../core/sse.ts';
import { appendBounded } from '../json/bounded-text.ts';
import { extractResponseTexts } from './rule-texts.ts';

export function createStreamTexts(route: TextRoute) {
  const byKey = new Map<string, string>();
  const add = (key: string, text: unknown): void => {
    if (typeof text === 'string' && text !== '') byKey.set(key, appendBounded(byKey.get(key) ?? '', text));
  };
  const addWhole = (key: string, value: unknown): void => {
    extractResponseTexts('messages', { content: value }).forEach((text, index) => {
      add(`${key}/${index}`, text);
    });
  };

  const addChat = (chunk: unknown): void => {
    for (const choice of asArray(asObject(chunk).choices)) {
      const { index, delta } = asObject(choice);
      const { tool_calls: calls, function_call: legacyCall, ...rest } = asObject(delta);
      for (const [name, text] of Object.entries(rest)) if (name !== 'role') add(`${index}/${name}`, text);
      for (const call of [...asArray(calls), { function: legacyCall }]) {
        const { name, arguments: input } = asObject(asObject(call).function);
        add(`${index}/${asObject(call).index}/name`, name);
        add(`${index}/${asObject(call).index}/arguments`, input);
      }
    }
  };

  const addMessages = (data: Readonly<Record<string, unknown>>): void => {
    const { index } = data;
    if (data.type === 'content_block_start') {
      const { text, thinking, ...block } = asObject(data.content_block);
      add(`${index}/text`, text);
      add(`${index}/thinking`, thinking);
      addWhole(`${index}/block`, [block]);
    }
    if (data.type === 'content_block_delta') {
      const { text, thinking, partial_json: json } = asObject(data.delta);
      add(`${index}/text`, text);
      add(`${index}/thinking`, thinking);
      add(`${index}/input`, json);
    }
  };

  const addResponses = (data: Readonly<Record<string, unknown>>): void => {
    const { type, output_index: output, content_index: content, delta, response } = data;
    if (typeof type !== 'string') return;
    if (type.endsWith('.delta')) add(`${type}/${output}/${content}`, delta);
    // The last event contains the complete response. If the stream was interrupted before this event, only the deltas
    // are left.
    else if (response !== undefined) addWhole(type, asObject(response).output);
  };

  return {
    add({ data }: SseEvent): void {
      const event = asObject(parseJson(data));
      if (route === 'chat') addChat(event);
      else if (route === 'messages') addMessages(event);
      else if (route === 'responses') addResponses(event);
    },
    texts: (): string[] => [...byKey.values()],
  };
}
