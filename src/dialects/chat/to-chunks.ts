/**
 * Converts a JSON chat response into the chunks that the vendor would have sent if the caller had asked for a stream.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { formatEvent } from '../../core/sse.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from '../json/lossless-json.ts';
import { expectArray, expectKnownObject, expectString, splitText } from '../json/strict-json.ts';
import { callMembers, contentFields, functionMembers, messageTextFields, reasoningFields } from './assemble.ts';

const choiceMembers = new Set(['index', 'message', 'finish_reason']);
const messageMembers = new Set<string>(['role', 'tool_calls', 'function_call', 'reasoning_details', ...messageTextFields]);

/** `response` has to be parsed by `parseLossless`. Throws UntranslatableError if we can't convert it. */
export function toChatChunks(response: unknown): string[] {
  if (!isLosslessObject(response)) rejectUntranslatable('the response must be an object');
  const { id, object: _object, created, model, choices, usage = null, ...others } = response;
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
  const pieces = expectArray(choices, 'choices').flatMap((choice, position) => toChoiceChunks(choice, position));
  if (pieces.length === 0) rejectUntranslatable('the response must have at least one choice');
  return [...pieces.map((piece) => chunk([piece], null)), ...(usage === null ? [] : [chunk([], usage)]), 'data: [DONE]\n\n'];
}

function toChoiceChunks(choice: unknown, position: number): JsonObject[] {
  const { index = position, message, finish_reason: finishReason } = expectKnownObject(choice, 'a choice', choiceMembers);
  if (typeof finishReason !== 'string') rejectUntranslatable('a choice must have a finish reason');
  const deltas = [...toDeltas(expectKnownObject(message, 'a message', messageMembers))];
  const piece = (delta: JsonObject, reason: string | null): JsonObject => ({ index, delta, logprobs: null, finish_reason: reason });
  return [...deltas.map((delta) => piece(delta, null)), piece({}, finishReason)];
}

function* toDeltas(message: JsonObject): Iterable<JsonObject> {
  const { content, tool_calls: calls, function_call: legacyCall } = message;
  const details = expectArray(message.reasoning_details, 'reasoning_details');
  yield { role: 'assistant', content: typeof content === 'string' ? '' : null };
  // Reasoning comes before the content in a stream.
  for (const name of reasoningFields) for (const text of splitText(expectString(message[name], name))) yield { [name]: text };
  if (details.length > 0) yield { reasoning_details: details };
  for (const name of contentFields) for (const text of splitText(expectString(message[name], name))) yield { [name]: text };
  for (const [index, call] of expectArray(calls, 'tool_calls').entries()) {
    const { id, type = 'function', function: fn } = expectKnownObject(call, 'a tool call', callMembers);
    if (type !== 'function') rejectUntranslatable('a tool call has an unknown type');
    const { name, arguments: argumentText } = parseFunction(fn);
    yield { tool_calls: [{ index, id, type, function: { name, arguments: '' } }] };
    for (const text of splitText(argumentText)) yield { tool_calls: [{ index, function: { arguments: text } }] };
  }
  if (isLosslessObject(legacyCall)) yield { function_call: parseFunction(legacyCall) };
}

function parseFunction(fn: unknown): { name: string; arguments: string } {
  const { name, arguments: argumentText } = expectKnownObject(fn, 'a function', functionMembers);
  return { name: expectString(name, 'a name'), arguments: expectString(argumentText, 'arguments') };
}
