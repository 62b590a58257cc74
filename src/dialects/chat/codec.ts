/** The codec for OpenAI chat completions (docs/vendors.md). */

import type { AssistantTurn } from '../../core/call.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { type BodySpans, type Splice, scanMembers, setMember } from '../../core/json/spans.ts';
import { type BillingReport, readBillingReport } from '../contract/billing-report.ts';
import type { RequestSummary, ResponseSummary, RouteCodec, StreamReader } from '../contract/route-codec.ts';
import { parseChatUsage, sumTokens } from '../contract/token-usage.ts';
import { readVendorError, type VendorErrorBody } from '../contract/vendor-error.ts';
import {
  billedKeys,
  parseOutputLimit,
  parseStream,
  parseStringMember,
  parseUser,
  rejectBody,
  rejectDuplicateKeys,
} from '../json/body-members.ts';
import { appendBounded } from '../json/bounded-text.ts';
import { countGeneratedText } from '../json/generated-text.ts';
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
  rejectDuplicateKeys(spans, keys);
  const { members } = spans;
  const model = members.get('model');
  if (model && model.kind !== 'string' && model.kind !== 'null') rejectBody('model: must be a string');
  const stream = parseStream(spans, 'stream: must be a boolean');
  const messages = members.get('messages');
  if (!messages) rejectBody('messages: is required');
  if (messages.kind !== 'array') rejectBody('messages: must be a list');
  return {
    model: parseStringMember(body, model) || null,
    stream,
    maxOutputTokens: parseOutputLimit(body, spans, limits),
    user: parseUser(body, members.get('user')),
    ...(stream && !asksForUsage(body, spans) && { hidesUsage: true }),
  };
}

/**
 * Returns true if the caller set `stream_options.include_usage`. This needs the original body, because `patchForVendor`
 * sets it for everyone.
 */
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
  // A `stream_options` that isn't an object is forwarded unchanged, so that the vendor rejects it with its own message.
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
  // We only need the count to estimate the usage, so don't count if the vendor reported the usage.
  const generatedCharacters = tokens === null ? countChoices(response.choices) : 0;
  return { tokens, isFinal: tokens !== null, turn: { text, toolCalls }, generatedCharacters, finished, ...readBillingReport(response) };
}

function countChoices(choices: readonly unknown[]): number {
  let count = 0;
  for (const choice of choices) count += countChoice(asObject(choice));
  return count;
}

/**
 * Some vendors send the same reasoning in several fields, so equal strings are only counted once. Tool calls are
 * counted separately, because two calls can really have the same arguments.
 */
function countChoice({ delta, message = delta, text }: JsonObject): number {
  const said = asObject(message);
  if (text === undefined && isOnlyContent(said)) return said.content.length;
  const { tool_calls: calls, function_call: legacyCall, ...texts } = said;
  return countGeneratedText([text, texts], new Set()) + countGeneratedText([calls, legacyCall]);
}

/** Recognizes deltas with nothing but text, which most are. Counting these doesn't require walking the whole object. */
function isOnlyContent(message: JsonObject): message is { readonly content: string } {
  for (const name in message) if (name !== 'content' && name !== 'role') return false;
  return typeof message.content === 'string';
}

function isFinished(choice: unknown): boolean {
  return typeof asObject(choice).finish_reason === 'string';
}

/**
 * Returns the chunk's text if it does nothing but continue the text of the first choice. Returns null for any other
 * chunk, even if it has text in other fields.
 */
function readTextDelta(chunk: JsonObject, characters: number): string | null {
  const { choices, usage, x_groq: groq, error } = chunk;
  if (!Array.isArray(choices) || choices.length !== 1) return null;
  if ([usage, groq, error].some((value) => value !== undefined && value !== null)) return null;
  const { delta, finish_reason: finishReason, index } = asObject(choices[0]);
  const { content, tool_calls: calls, function_call: legacyCall } = asObject(delta);
  const isText = typeof content === 'string' && content.length === characters;
  return isText && index === 0 && !finishReason && calls === undefined && legacyCall === undefined ? content : null;
}

/** Many vendors send a first chunk that contains only the role. That doesn't count as content. */
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
    member: 'content',
    readText(data) {
      const chunk = asObject(parseJson(data));
      return readTextDelta(chunk, countChoices(asArray(chunk.choices)));
    },
  });
  let tokens: ResponseSummary['tokens'] = null;
  let report: BillingReport = {};
  let generatedCharacters = 0;
  /** The number of characters that had been generated when the last usage arrived. */
  let countedCharacters = 0;
  /**
   * Set once the vendor sends its separate usage event or the stream ends. After that, the token count can't change
   * anymore.
   */
  let isCounted = false;
  let text = '';
  /** Says for each choice, by its index, whether its finish reason has arrived. */
  const ends = new Map<unknown, boolean>();
  let problem: VendorErrorBody | null = null;
  let hasContent = false;
  const calls = createToolCallReader();
  const toolCalls: { name: string; arguments: string }[] = [];

  const readChoice = (choice: unknown): void => {
    const { delta, finish_reason: finishReason, index } = asObject(choice);
    ends.set(index, ends.get(index) === true || typeof finishReason === 'string');
    // With `n` > 1 all choices are forwarded, but a conversation can only continue with one of them, so take the first.
    if (index !== undefined && index !== 0) return;
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

  const allFinished = (): boolean => ends.size > 0 && [...ends.values()].every(Boolean);

  return {
    read(event) {
      const more = hasContent ? repeated.read(event.data) : null;
      if (more !== null) {
        text = appendBounded(text, more);
        generatedCharacters += more.length;
        return 'delta';
      }
      if (event.data === '') return 'ignored';
      if (event.data === '[DONE]') {
        isCounted = true;
        return 'end';
      }
      const chunk = parseJson(event.data);
      if (!isObject(chunk)) return 'unreadable';
      if (chunk.error !== undefined && chunk.error !== null) {
        problem = readVendorError(chunk);
        return 'error';
      }
      const choices = asArray(chunk.choices);
      for (const choice of choices) readChoice(choice);
      const characters = countChoices(choices);
      generatedCharacters += characters;
      const textDelta = readTextDelta(chunk, characters);
      if (textDelta !== null) repeated.learn(event.data, textDelta);
      const isTierNew = report.serviceTier === undefined && typeof chunk.service_tier === 'string';
      if (isTierNew || isObject(chunk.usage)) report = { ...report, ...readBillingReport(chunk) };
      const reported = parseChatUsage(chunk.usage) ?? parseChatUsage(asObject(chunk.x_groq).usage);
      // Some vendors end a stream with zeros, after they have sent the real counts.
      if (reported !== null && (tokens === null || sumTokens(reported) > 0)) {
        tokens = reported;
        countedCharacters = generatedCharacters;
      }
      // A chunk without choices can't contain content, but that doesn't make it a usage event. Azure, for example,
      // sends its `prompt_filter_results` this way.
      if (choices.length === 0 && isObject(chunk.usage)) {
        isCounted = true;
        return 'usage';
      }
      if (!Array.isArray(chunk.choices)) return 'ignored';
      hasContent ||= chunk.choices.some(holdsContent);
      return hasContent ? 'delta' : 'opening';
    },
    summary: () => {
      // Drop calls that have neither a name nor arguments, because they aren't function calls.
      const turn = { text, toolCalls: toolCalls.filter((call) => call.name !== '' || call.arguments !== '') };
      const finished = allFinished();
      // Some vendors report usage with every chunk or only with the first one, so usage alone doesn't mean that the
      // count is final.
      const isFinal = tokens !== null && (isCounted || finished) && countedCharacters === generatedCharacters;
      return { tokens, isFinal, turn, generatedCharacters, finished, ...report };
    },
    hasAllOutput: (choices) => ends.size >= choices && allFinished(),
    finished: () => [...ends.values()].some(Boolean),
    problem: () => problem,
  };
}
