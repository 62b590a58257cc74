/** Puts the chunks of a streamed chat answer together to the plain answer that says the same. Pure. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from '../json/lossless-json.ts';
import { expectArray, expectKnownObject, expectString, isSameJson } from '../json/strict-json.ts';

/** Texts of a message that come in pieces. */
export const messageTextFields = ['content', 'refusal', 'reasoning_content', 'reasoning'] as const;

const choiceMembers = new Set(['index', 'delta', 'finish_reason']);
const deltaMembers = new Set<string>(['role', 'tool_calls', 'function_call', ...messageTextFields]);
const callMembers = new Set(['index', 'id', 'type', 'function']);
const functionMembers = new Set(['name', 'arguments']);

interface OpenFunction {
  name: string;
  arguments: string;
}

interface OpenChoice {
  readonly texts: Map<string, string>;
  readonly calls: Map<number, OpenFunction & { id: string }>;
  legacyCall: OpenFunction | null;
  finishReason: string | null;
}

/** `chunks` are parsed by `parseLossless`. Throws Untranslatable. */
export function assembleChat(chunks: readonly unknown[]): JsonObject {
  const head = new Map<string, unknown>();
  const choices = new Map<number, OpenChoice>();
  let usage: unknown = null;
  for (const chunk of chunks) {
    if (!isLosslessObject(chunk)) rejectUntranslatable('a chunk is no object');
    // `obfuscation` is padding of the wire.
    const { object: _object, choices: pieces, usage: counts, obfuscation: _padding, ...others } = chunk;
    for (const [name, value] of Object.entries(others)) mergeHead(head, name, value);
    usage = counts ?? usage;
    for (const piece of expectArray(pieces, 'choices')) addChoice(choices, piece);
  }
  if (choices.size === 0) rejectUntranslatable('the answer has no choices');
  const { id, created, model, ...others } = Object.fromEntries(head);
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: sortedByIndex(choices).map(([index, choice]) => toChoice(index, choice)),
    ...(usage === null ? {} : { usage }),
    ...others,
  };
}

/** What stands beside the choices is the same in all chunks that have it; some vendors send it empty at first, and a new time each time. */
function mergeHead(head: Map<string, unknown>, name: string, value: unknown): void {
  const known = head.get(name);
  const isEmpty = (given: unknown): boolean => given === undefined || given === null || given === '';
  if (isEmpty(known) || (name === 'created' && known === 0)) head.set(name, value);
  else if (!isEmpty(value) && name !== 'created' && !isSameJson(known, value)) rejectUntranslatable('the chunks do not agree');
}

function addChoice(choices: Map<number, OpenChoice>, piece: unknown): void {
  const { index = 0, delta, finish_reason: finishReason } = expectKnownObject(piece, 'a choice', choiceMembers);
  if (typeof index !== 'number') rejectUntranslatable('the index of a choice is no number');
  const choice = choices.get(index) ?? { texts: new Map(), calls: new Map(), legacyCall: null, finishReason: null };
  choices.set(index, choice);
  if (typeof finishReason === 'string') choice.finishReason = finishReason;
  if (delta === undefined || delta === null) return;
  const { tool_calls: calls, function_call: legacyCall, ...texts } = expectKnownObject(delta, 'a delta', deltaMembers);
  for (const name of messageTextFields) {
    if (texts[name] !== undefined && texts[name] !== null)
      choice.texts.set(name, (choice.texts.get(name) ?? '') + expectString(texts[name], name));
  }
  for (const call of expectArray(calls, 'tool_calls')) addCall(choice, call);
  if (isLosslessObject(legacyCall)) choice.legacyCall = appendToFunction(choice.legacyCall ?? { name: '', arguments: '' }, legacyCall);
}

function addCall({ calls }: OpenChoice, piece: unknown): void {
  const { index, id, type, function: fn } = expectKnownObject(piece, 'a tool call', callMembers);
  if (typeof index !== 'number') rejectUntranslatable('a piece of a tool call does not say to which call it belongs');
  if (type !== undefined && type !== null && type !== 'function') rejectUntranslatable('a tool call is of no known type');
  const call = calls.get(index) ?? { id: '', name: '', arguments: '' };
  calls.set(index, { id: mergeOnce(call.id, id), ...appendToFunction(call, fn ?? {}) });
}

function appendToFunction(open: OpenFunction, piece: unknown): OpenFunction {
  const { name, arguments: more } = expectKnownObject(piece, 'a function', functionMembers);
  return { name: mergeOnce(open.name, name), arguments: open.arguments + expectString(more, 'arguments') };
}

/** Ids and names come whole; some vendors repeat them with each piece. */
function mergeOnce(known: string, value: unknown): string {
  const text = expectString(value, 'a name');
  if (known !== '' && text !== '' && known !== text) rejectUntranslatable('a tool call has two names');
  return known || text;
}

function toChoice(index: number, { texts, calls, legacyCall, finishReason }: OpenChoice): JsonObject {
  if (finishReason === null) rejectUntranslatable('a choice has no end');
  const { content = '', refusal = '', ...reasoning } = Object.fromEntries(texts);
  const isCall = calls.size > 0 || legacyCall !== null;
  const toolCalls = sortedByIndex(calls).map(([, call]) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }));
  const message = {
    role: 'assistant',
    content: content === '' && (isCall || refusal !== '') ? null : content,
    refusal: refusal === '' ? null : refusal,
    ...reasoning,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
    ...(legacyCall === null ? {} : { function_call: legacyCall }),
  };
  return { index, message, logprobs: null, finish_reason: finishReason };
}

function sortedByIndex<Value>(map: ReadonlyMap<number, Value>): [number, Value][] {
  return [...map].sort(([a], [b]) => a - b);
}
