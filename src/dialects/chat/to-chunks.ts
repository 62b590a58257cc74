/** Tells a plain chat answer as the chunks that its vendor would have streamed. Pure. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { formatEvent } from '../../core/sse.ts';
import { refuse } from '../contract/untranslatable.ts';
import { isObject } from '../json/lossless-json.ts';
import { knownObject, listOrNone, piecesOf, textOrNone } from '../json/strict-json.ts';
import { messageTexts } from './assemble.ts';

const choiceMembers = new Set(['index', 'message', 'finish_reason']);
const messageMembers = new Set<string>(['role', 'tool_calls', 'function_call', ...messageTexts]);
const callMembers = new Set(['index', 'id', 'type', 'function']);
const functionMembers = new Set(['name', 'arguments']);

/** `answer` is parsed by `parseLossless`. Throws Untranslatable. */
export function replayChat(answer: unknown): string[] {
  if (!isObject(answer)) refuse('the answer is no object');
  const { id, object: _object, created, model, choices, usage = null, ...others } = answer;
  const chunk = (pieces: readonly JsonObject[], counts: unknown): string =>
    formatEvent(null, {
      id,
      object: 'chat.completion.chunk',
      created,
      model,
      ...others,
      choices: pieces,
      ...(usage === null ? {} : { usage: counts }),
    });
  const pieces = listOrNone(choices, 'choices').flatMap((choice, position) => piecesOfChoice(choice, position));
  if (pieces.length === 0) refuse('the answer has no choices');
  return [...pieces.map((piece) => chunk([piece], null)), ...(usage === null ? [] : [chunk([], usage)]), 'data: [DONE]\n\n'];
}

function piecesOfChoice(choice: unknown, position: number): JsonObject[] {
  const { index = position, message, finish_reason: finishReason } = knownObject(choice, 'a choice', choiceMembers);
  if (typeof finishReason !== 'string') refuse('a choice has no end');
  const deltas = [...deltasOf(knownObject(message, 'a message', messageMembers))];
  const piece = (delta: JsonObject, reason: string | null): JsonObject => ({ index, delta, logprobs: null, finish_reason: reason });
  return [...deltas.map((delta) => piece(delta, null)), piece({}, finishReason)];
}

function* deltasOf(message: JsonObject): Iterable<JsonObject> {
  const { content, tool_calls: calls, function_call: legacyCall } = message;
  yield { role: 'assistant', content: typeof content === 'string' ? '' : null };
  // What the model thought comes before what it says.
  for (const name of messageTexts.toReversed()) {
    for (const text of piecesOf(textOrNone(message[name], name))) yield { [name]: text };
  }
  for (const [index, call] of listOrNone(calls, 'tool_calls').entries()) {
    const { id, type = 'function', function: fn } = knownObject(call, 'a tool call', callMembers);
    if (type !== 'function') refuse('a tool call is of no known type');
    const { name, arguments: argumentText } = readFunction(fn);
    yield { tool_calls: [{ index, id, type, function: { name, arguments: '' } }] };
    for (const text of piecesOf(argumentText)) yield { tool_calls: [{ index, function: { arguments: text } }] };
  }
  if (isObject(legacyCall)) yield { function_call: readFunction(legacyCall) };
}

function readFunction(fn: unknown): { name: string; arguments: string } {
  const { name, arguments: argumentText } = knownObject(fn, 'a function', functionMembers);
  return { name: textOrNone(name, 'a name'), arguments: textOrNone(argumentText, 'arguments') };
}
