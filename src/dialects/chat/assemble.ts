/** Puts the chunks of a streamed chat answer together to the plain answer that says the same. Pure. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { refuse } from '../contract/untranslatable.ts';
import { isObject } from '../json/lossless-json.ts';
import { isSame, knownObject, listOrNone, textOrNone } from '../json/strict-json.ts';

/** Texts of a message that come in pieces. */
export const messageTexts = ['content', 'refusal', 'reasoning_content', 'reasoning'] as const;

const choiceMembers = new Set(['index', 'delta', 'finish_reason']);
const deltaMembers = new Set<string>(['role', 'tool_calls', 'function_call', ...messageTexts]);
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
    if (!isObject(chunk)) refuse('a chunk is no object');
    // `obfuscation` is padding of the wire.
    const { object: _object, choices: pieces, usage: counts, obfuscation: _padding, ...others } = chunk;
    for (const [name, value] of Object.entries(others)) mergeHead(head, name, value);
    usage = counts ?? usage;
    for (const piece of listOrNone(pieces, 'choices')) addChoice(choices, piece);
  }
  if (choices.size === 0) refuse('the answer has no choices');
  const { id, created, model, ...others } = Object.fromEntries(head);
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: inOrder(choices).map(([index, choice]) => wholeChoice(index, choice)),
    ...(usage === null ? {} : { usage }),
    ...others,
  };
}

/** What stands beside the choices is the same in all chunks that have it; some vendors send it empty at first, and a new time each time. */
function mergeHead(head: Map<string, unknown>, name: string, value: unknown): void {
  const known = head.get(name);
  const isEmpty = (given: unknown): boolean => given === undefined || given === null || given === '';
  if (isEmpty(known) || (name === 'created' && known === 0)) head.set(name, value);
  else if (!isEmpty(value) && name !== 'created' && !isSame(known, value)) refuse('the chunks do not agree');
}

function addChoice(choices: Map<number, OpenChoice>, piece: unknown): void {
  const { index = 0, delta, finish_reason: finishReason } = knownObject(piece, 'a choice', choiceMembers);
  if (typeof index !== 'number') refuse('the index of a choice is no number');
  const choice = choices.get(index) ?? { texts: new Map(), calls: new Map(), legacyCall: null, finishReason: null };
  choices.set(index, choice);
  if (typeof finishReason === 'string') choice.finishReason = finishReason;
  if (delta === undefined || delta === null) return;
  const { tool_calls: calls, function_call: legacyCall, ...texts } = knownObject(delta, 'a delta', deltaMembers);
  for (const name of messageTexts) {
    if (texts[name] !== undefined && texts[name] !== null)
      choice.texts.set(name, (choice.texts.get(name) ?? '') + textOrNone(texts[name], name));
  }
  for (const call of listOrNone(calls, 'tool_calls')) addCall(choice, call);
  if (isObject(legacyCall)) choice.legacyCall = added(choice.legacyCall ?? { name: '', arguments: '' }, legacyCall);
}

function addCall({ calls }: OpenChoice, piece: unknown): void {
  const { index, id, type, function: fn } = knownObject(piece, 'a tool call', callMembers);
  if (typeof index !== 'number') refuse('a piece of a tool call does not say to which call it belongs');
  if (type !== undefined && type !== null && type !== 'function') refuse('a tool call is of no known type');
  const call = calls.get(index) ?? { id: '', name: '', arguments: '' };
  calls.set(index, { id: onceSaid(call.id, id), ...added(call, fn ?? {}) });
}

function added(open: OpenFunction, piece: unknown): OpenFunction {
  const { name, arguments: more } = knownObject(piece, 'a function', functionMembers);
  return { name: onceSaid(open.name, name), arguments: open.arguments + textOrNone(more, 'arguments') };
}

/** Ids and names come whole; some vendors repeat them with each piece. */
function onceSaid(known: string, value: unknown): string {
  const text = textOrNone(value, 'a name');
  if (known !== '' && text !== '' && known !== text) refuse('a tool call has two names');
  return known || text;
}

function wholeChoice(index: number, { texts, calls, legacyCall, finishReason }: OpenChoice): JsonObject {
  if (finishReason === null) refuse('a choice has no end');
  const { content = '', refusal = '', ...reasoning } = Object.fromEntries(texts);
  const isCall = calls.size > 0 || legacyCall !== null;
  const toolCalls = inOrder(calls).map(([, call]) => ({
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

function inOrder<Value>(map: ReadonlyMap<number, Value>): [number, Value][] {
  return [...map].sort(([a], [b]) => a - b);
}
