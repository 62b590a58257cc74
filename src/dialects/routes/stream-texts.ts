/**
 * Collects the text of a streamed answer for content rules, whoever hears it: all choices, thinking, tool calls. Pieces of one place are joined, so
 * that what was cut between two of them is whole again.
 */
import type { TextRoute } from '../../core/call.ts';
import { asArray, asObject, parseJson } from '../../core/json/narrow.ts';
import type { SseEvent } from '../../core/sse.ts';
import { appendBounded } from '../json/bounded-text.ts';
import { extractResponseTexts } from './rule-texts.ts';

export interface StreamTexts {
  read(event: SseEvent): void;
  texts(): string[];
}

export function createStreamTexts(route: TextRoute): StreamTexts {
  const byPlace = new Map<string, string>();
  const add = (place: string, piece: unknown): void => {
    if (typeof piece === 'string' && piece !== '') byPlace.set(place, appendBounded(byPlace.get(place) ?? '', piece));
  };
  const addWhole = (place: string, value: unknown): void => {
    extractResponseTexts('messages', { content: value }).forEach((text, index) => {
      add(`${place}/${index}`, text);
    });
  };

  const readChat = (chunk: unknown): void => {
    for (const choice of asArray(asObject(chunk).choices)) {
      const { index, delta } = asObject(choice);
      const { tool_calls: calls, function_call: called, ...rest } = asObject(delta);
      for (const [name, piece] of Object.entries(rest)) if (name !== 'role') add(`${index}/${name}`, piece);
      for (const call of [...asArray(calls), { function: called }]) {
        const { name, arguments: input } = asObject(asObject(call).function);
        add(`${index}/${asObject(call).index}/name`, name);
        add(`${index}/${asObject(call).index}/arguments`, input);
      }
    }
  };

  const readMessages = (data: Readonly<Record<string, unknown>>): void => {
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

  const readResponses = (data: Readonly<Record<string, unknown>>): void => {
    const { type, output_index: output, content_index: content, delta, response } = data;
    if (typeof type !== 'string') return;
    if (type.endsWith('.delta')) add(`${type}/${output}/${content}`, delta);
    // The last event holds the whole answer; of a stream that broke off the pieces are all there is.
    else if (response !== undefined) addWhole(type, asObject(response).output);
  };

  return {
    read({ data }) {
      const event = asObject(parseJson(data));
      if (route === 'chat') readChat(event);
      else if (route === 'messages') readMessages(event);
      else if (route === 'responses') readResponses(event);
    },
    texts: () => [...byPlace.values()],
  };
}
