/** Codec of OpenAI chat completions (docs/vendors.md). */

import type { AssistantTurn } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { asArray, asObject, asString, isObject, parseJson } from '../../core/json/narrow.ts';
import type { BodySpans, Splice } from '../../core/json/spans.ts';
import { scanMembers, setMember } from '../../core/json/spans.ts';
import type { RequestSummary, ResponseSummary, RouteCodec, StreamReader } from '../contract/route-codec.ts';
import { parseChatUsage } from '../contract/token-usage.ts';
import { readVendorError, type VendorErrorBody } from '../contract/vendor-error.ts';
import { billedKeys, parseOutputLimit, parseStringMember, rejectDuplicateKeys } from '../json/body-members.ts';
import { appendBounded } from '../json/bounded-text.ts';
import { createRepeatedEvent } from '../json/repeated-event.ts';
import { createToolCallReader, listToolCalls, toArgumentText } from './tool-calls.ts';

const keys = ['model', 'stream', 'stream_options', 'messages', 'user', ...billedKeys];
const limits = { names: ['max_completion_tokens', 'max_tokens'], others: ['max_output_tokens'] };

export const chat: RouteCodec = {
  route: 'chat',
  path: '/chat/completions',
  parseRequest,
  patchForVendor,
  parseResponse,
  createStreamReader,
  formatStreamError: () => null,
};

function parseRequest(body: Buffer, spans: BodySpans): RequestSummary {
  const refuse = (message: string): never => {
    throw gatewayError('bad_json', { message });
  };
  rejectDuplicateKeys(spans, keys);
  const { members } = spans;
  const model = members.get('model');
  if (model && model.kind !== 'string' && model.kind !== 'null') refuse('model: must be a string');
  const stream = members.get('stream');
  if (stream && stream.kind !== 'true' && stream.kind !== 'false') refuse('stream: must be a boolean');
  const messages = members.get('messages');
  if (!messages) refuse('messages: is required');
  if (messages?.kind !== 'array') refuse('messages: must be a list');
  return {
    model: parseStringMember(body, model) || null,
    stream: stream?.kind === 'true',
    maxOutputTokens: parseOutputLimit(body, spans, limits),
    user: parseStringMember(body, members.get('user')),
    ...(stream?.kind === 'true' && !asksForUsage(body, spans) && { hidesUsage: true }),
  };
}

/** Whether the caller itself set `stream_options.include_usage`, which `patchForVendor` sets for every caller. */
function asksForUsage(body: Buffer, { members }: BodySpans): boolean {
  const options = members.get('stream_options');
  return options?.kind === 'object' && scanMembers(body, options.value.start).members.get('include_usage')?.kind === 'true';
}

function patchForVendor(body: Buffer, spans: BodySpans, vendorModel: string, stream: boolean): Splice[] {
  const splices = [setMember(spans, 'model', JSON.stringify(vendorModel))];
  if (!stream) return splices;
  const options = spans.members.get('stream_options');
  if (options === undefined || options.kind === 'null') splices.push(setMember(spans, 'stream_options', '{"include_usage":true}'));
  else if (options.kind === 'object') splices.push(setMember(scanMembers(body, options.value.start), 'include_usage', 'true'));
  // Any other type is forwarded unchanged: the vendor rejects it with its own message.
  return mergeInsertions(splices);
}

/** Merges two insertions at the same position into one with a comma between them. */
function mergeInsertions(splices: Splice[]): Splice[] {
  const [first, second] = splices;
  if (!first || !second || first.span.start !== second.span.start || first.span.end !== second.span.end) return splices;
  const comma = first.replacement.endsWith(',') ? '' : ',';
  return [{ span: first.span, replacement: `${first.replacement}${comma}${second.replacement}` }];
}

function parseResponse(bytes: Buffer): ResponseSummary | null {
  const response = parseJson(bytes.toString('utf8'));
  if (!isObject(response) || !Array.isArray(response.choices)) return null;
  const message = asObject(asObject(response.choices[0]).message);
  const toolCalls: AssistantTurn['toolCalls'][number][] = [];
  for (const { function: fn } of listToolCalls(message))
    if (isObject(fn)) toolCalls.push({ name: asString(fn.name) ?? '', arguments: toArgumentText(fn.arguments) });
  const tokens = parseChatUsage(response.usage);
  const text = asString(message.content) ?? asString(message.refusal) ?? '';
  const finished = response.choices.length > 0 && response.choices.every(isFinished);
  return { tokens, isFinal: tokens !== null, turn: { text, toolCalls }, finished };
}

function isFinished(choice: unknown): boolean {
  return typeof asObject(choice).finish_reason === 'string';
}

/** The text of a chunk that only continues the text of the first choice; null for every other chunk. */
function readTextDelta(chunk: unknown): string | null {
  const { choices, usage, x_groq: groq, error } = asObject(chunk);
  if (!Array.isArray(choices) || choices.length !== 1) return null;
  if ([usage, groq, error].some((value) => value !== undefined && value !== null)) return null;
  const { delta, finish_reason: finishReason, index } = asObject(choices[0]);
  const { content, tool_calls: calls, function_call: legacyCall } = asObject(delta);
  return index === 0 && !finishReason && calls === undefined && legacyCall === undefined ? asString(content) : null;
}

/** Whether a choice of a chunk has more than the role: the first one of many vendors has nothing else. */
function holdsContent(choice: unknown): boolean {
  const { delta, finish_reason: finishReason } = asObject(choice);
  if (typeof finishReason === 'string') return true;
  return Object.entries(asObject(delta)).some(([name, value]) => name !== 'role' && !isEmptyValue(value));
}

function isEmptyValue(value: unknown): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

function createStreamReader(): StreamReader {
  const repeated = createRepeatedEvent({
    fieldsBefore: '',
    member: 'content',
    readText: (data) => readTextDelta(parseJson(data)),
    onText: (more) => {
      text = appendBounded(text, more);
    },
  });
  let tokens: ResponseSummary['tokens'] = null;
  let text = '';
  /** Whether a choice has a finish reason, by its index. */
  const ends = new Map<unknown, boolean>();
  let problem: VendorErrorBody | null = null;
  let hasContent = false;
  const calls = createToolCallReader();
  const toolCalls: { name: string; arguments: string }[] = [];

  const readChoice = (choice: unknown): void => {
    const { delta, finish_reason: finishReason, index } = asObject(choice);
    ends.set(index, ends.get(index) === true || typeof finishReason === 'string');
    if (index !== undefined && index !== 0) return; // Further choices (`n` > 1) are forwarded, but a conversation continues with the first.
    const message = asObject(delta);
    const { content, refusal } = message;
    if (typeof content === 'string') text = appendBounded(text, content);
    else if (typeof refusal === 'string') text = appendBounded(text, refusal);
    for (const { call, argumentText } of calls.read(message)) {
      const toolCall = toolCalls[call.position] ?? { name: '', arguments: '' };
      toolCall.name = call.name;
      toolCall.arguments = appendBounded(toolCall.arguments, argumentText);
      toolCalls[call.position] = toolCall;
    }
  };

  return {
    skip: (latin1, at) => (hasContent ? repeated.skip(latin1, at) : at),
    read(event) {
      if (event.data === '') return 'ignored';
      if (event.data === '[DONE]') return 'end';
      const chunk = parseJson(event.data);
      if (!isObject(chunk)) return 'unreadable';
      if (chunk.error !== undefined && chunk.error !== null) {
        problem = readVendorError(chunk);
        return 'error';
      }
      for (const choice of asArray(chunk.choices)) readChoice(choice);
      const textDelta = readTextDelta(chunk);
      if (textDelta !== null) repeated.learn(event.data, textDelta);
      tokens = parseChatUsage(chunk.usage) ?? parseChatUsage(asObject(chunk.x_groq).usage) ?? tokens;
      // An object without choices carries no content. Other vendor data may be in one, such as Azure's `prompt_filter_results`.
      if (asArray(chunk.choices).length === 0 && isObject(chunk.usage)) return 'usage';
      if (!Array.isArray(chunk.choices)) return 'ignored';
      hasContent ||= chunk.choices.some(holdsContent);
      return hasContent ? 'delta' : 'opening';
    },
    summary: () => {
      // Calls of other kinds have neither; they are no part of a turn.
      const turn = { text, toolCalls: toolCalls.filter((call) => call.name !== '' || call.arguments !== '') };
      return { tokens, isFinal: tokens !== null, turn, finished: ends.size > 0 && [...ends.values()].every(Boolean) };
    },
    finished: () => [...ends.values()].some(Boolean),
    problem: () => problem,
  };
}
