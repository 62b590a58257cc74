/** Assembles the chunks of a streamed chat response into the equivalent JSON response. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from '../json/lossless-json.ts';
import { expectArray, expectKnownObject, expectString, isSameJson } from '../json/strict-json.ts';

export const contentFields = ['content', 'refusal'] as const;
export const reasoningFields = ['reasoning_content', 'reasoning'] as const;
/** Streams send these message fields in pieces that have to be concatenated. */
export const messageTextFields = [...contentFields, ...reasoningFields];

const choiceMembers = new Set(['index', 'delta', 'finish_reason']);
const deltaMembers = new Set<string>(['role', 'tool_calls', 'function_call', 'reasoning_details', ...messageTextFields]);
export const callMembers = new Set(['index', 'id', 'type', 'function']);
export const functionMembers = new Set(['name', 'arguments']);

interface OpenFunction {
  name: string;
  arguments: string;
}

interface OpenChoice {
  readonly texts: Map<string, string>;
  readonly calls: Map<number, OpenFunction & { id: string }>;
  readonly details: Map<unknown, unknown>;
  legacyCall: OpenFunction | null;
  finishReason: string | null;
}

/** The chunks have to be parsed by `parseLossless`. Throws UntranslatableError if we can't assemble them. */
export function assembleChat(chunks: readonly unknown[]): JsonObject {
  const head = new Map<string, unknown>();
  const choices = new Map<number, OpenChoice>();
  let usage: unknown = null;
  for (const chunk of chunks) {
    if (!isLosslessObject(chunk)) rejectUntranslatable('a chunk must be an object');
    // Drop `obfuscation`, which is random padding against traffic analysis.
    const { object: _object, choices: choiceChunks, usage: usageOfChunk, obfuscation: _padding, ...rest } = chunk;
    for (const [name, value] of Object.entries(rest)) mergeHead(head, name, value);
    usage = usageOfChunk ?? usage;
    for (const choiceChunk of expectArray(choiceChunks, 'choices')) addChoice(choices, choiceChunk);
  }
  if (choices.size === 0) rejectUntranslatable('the response must have at least one choice');
  const { id, created, model, ...rest } = Object.fromEntries(head);
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: sortedByIndex(choices).map(([index, choice]) => toChoice(index, choice)),
    ...(usage === null ? {} : { usage }),
    ...rest,
  };
}

/**
 * Merges a top-level field of a chunk. The field should be the same in every chunk, but some vendors leave it empty in
 * the first chunk, and some send a different `created` with each chunk.
 */
function mergeHead(head: Map<string, unknown>, name: string, value: unknown): void {
  const existing = head.get(name);
  const isEmpty = (member: unknown): boolean => member === undefined || member === null || member === '';
  if (isEmpty(existing) || (name === 'created' && existing === 0)) head.set(name, value);
  else if (!isEmpty(value) && name !== 'created' && !isSameJson(existing, value))
    rejectUntranslatable('two chunks have different values for the same field');
}

function addChoice(choices: Map<number, OpenChoice>, chunk: unknown): void {
  const { index = 0, delta, finish_reason: finishReason } = expectKnownObject(chunk, 'a choice', choiceMembers);
  if (typeof index !== 'number') rejectUntranslatable('the index of a choice must be a number');
  const choice = choices.get(index) ?? { texts: new Map(), calls: new Map(), details: new Map(), legacyCall: null, finishReason: null };
  choices.set(index, choice);
  if (typeof finishReason === 'string') choice.finishReason = finishReason;
  if (delta === undefined || delta === null) return;
  const {
    tool_calls: calls,
    function_call: legacyCall,
    reasoning_details: details,
    ...texts
  } = expectKnownObject(delta, 'a delta', deltaMembers);
  for (const name of messageTextFields) {
    if (texts[name] !== undefined && texts[name] !== null)
      choice.texts.set(name, (choice.texts.get(name) ?? '') + expectString(texts[name], name));
  }
  for (const call of expectArray(calls, 'tool_calls')) addCall(choice, call);
  for (const detail of expectArray(details, 'reasoning_details')) addDetail(choice, detail);
  if (isLosslessObject(legacyCall)) choice.legacyCall = appendToFunction(choice.legacyCall ?? { name: '', arguments: '' }, legacyCall);
}

/**
 * Adds an entry of `reasoning_details`. Entries that are split across chunks are rejected, because vendors don't agree
 * on how to join the pieces.
 */
function addDetail({ details }: OpenChoice, detail: unknown): void {
  const { index } = isLosslessObject(detail) ? detail : {};
  if (typeof index !== 'number' || details.has(index)) rejectUntranslatable('an entry of reasoning_details is split across chunks');
  details.set(index, detail);
}

function addCall({ calls }: OpenChoice, delta: unknown): void {
  const { index, id, type, function: fn } = expectKnownObject(delta, 'a tool call', callMembers);
  if (typeof index !== 'number') rejectUntranslatable('a tool call delta must have an index');
  if (type !== undefined && type !== null && type !== 'function') rejectUntranslatable('a tool call has an unknown type');
  const call = calls.get(index) ?? { id: '', name: '', arguments: '' };
  calls.set(index, { id: mergeOnce(call.id, id), ...appendToFunction(call, fn ?? {}) });
}

function appendToFunction(open: OpenFunction, delta: unknown): OpenFunction {
  const { name, arguments: more } = expectKnownObject(delta, 'a function', functionMembers);
  return { name: mergeOnce(open.name, name), arguments: open.arguments + expectString(more, 'arguments') };
}

/** Vendors never split ids and names, so don't concatenate them. Some vendors repeat them in every delta, though. */
function mergeOnce(existing: string, value: unknown): string {
  const text = expectString(value, 'a name');
  if (existing !== '' && text !== '' && existing !== text) rejectUntranslatable('a tool call has two names');
  return existing || text;
}

function toChoice(index: number, { texts, calls, details, legacyCall, finishReason }: OpenChoice): JsonObject {
  if (finishReason === null) rejectUntranslatable('a choice must have a finish reason');
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
    ...(details.size > 0 ? { reasoning_details: [...details.values()] } : {}),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
    ...(legacyCall === null ? {} : { function_call: legacyCall }),
  };
  return { index, message, logprobs: null, finish_reason: finishReason };
}

function sortedByIndex<Value>(map: ReadonlyMap<number, Value>): [number, Value][] {
  return [...map].sort(([a], [b]) => a - b);
}
