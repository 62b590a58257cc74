/**
 * Chat things as messages things: the request of a caller of chat for a vendor of messages, and the plain answer of a vendor of chat
 * for a caller of messages (vendor facts 8.1 and 8.2). Pure. Bodies are parsed by `parseLossless`.
 *
 * What a request says and the other dialect cannot say is never left out: it is refused. Left out are only plain parameters that do
 * not change what is asked: `seed`, `logprobs`, `logit_bias`, penalties, `store`, `service_tier`, `metadata`, `verbosity`,
 * `prediction`, the `name` of a message, and those that nobody knows.
 */
import type { ModelTraits } from '../../core/call.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { asArray } from '../../core/json/narrow.ts';
import { readChatUsage } from '../contract/token-usage.ts';
import { refuse } from '../contract/untranslatable.ts';
import { filledText, given, isObject, numberOf, objectOf, plainNumbers } from '../json/lossless-json.ts';
import { answerTextOf } from './chat-text.ts';
import { readToolWishes, type ToolWishes } from './chat-tools.ts';
import { inputOf, readChatTurns, type Turn } from './chat-turns.ts';
import { thinkingOf } from './reasoning.ts';
import type { AnswerNames } from './response-identity.ts';
import { messagesUsageOf, stopReasonOf } from './stop-reasons.ts';
import { makeToolId } from './tool-ids.ts';

/** The model that is asked. */
export interface MessagesTarget extends Pick<ModelTraits, 'supportsSchema' | 'thinking'> {
  readonly model: string;
  /** Used when the caller set no bound: the model's own, or 4,096. */
  readonly maxTokens: number;
  readonly stream: boolean;
}

/** Throws Untranslatable. */
export function requestToMessages(body: JsonObject, target: MessagesTarget): JsonObject {
  refuseInexpressible(body);
  if (!Array.isArray(body.messages)) refuse('messages is no list');
  const { system, turns } = readChatTurns(asArray(body.messages));
  const maxTokens = body.max_completion_tokens ?? body.max_tokens ?? target.maxTokens;
  // A model that takes no schema is asked for JSON by a tool that it must call.
  const wishes = readToolWishes(body, turns, target.supportsSchema ?? false);
  const thinking = mayThink(turns, wishes)
    ? thinkingOf(body.reasoning_effort, numberOf(maxTokens) ?? 0, target.thinking ?? 'budget')
    : null;
  const outputConfig = given({ format: wishes.format, effort: thinking?.effort });
  return given({
    model: target.model,
    max_tokens: maxTokens,
    system: system.length > 0 ? system : null,
    messages: turns,
    // A thinking model takes neither of the two.
    ...(thinking === null ? samplingOf(body) : {}),
    stop_sequences: stopsOf(body.stop),
    tools: wishes.tools.length > 0 ? wishes.tools : null,
    tool_choice: wishes.toolChoice,
    thinking: thinking?.thinking,
    output_config: Object.keys(outputConfig).length > 0 ? outputConfig : null,
    metadata: userOf(body),
    stream: target.stream ? true : null,
  });
}

/** Null: this is no chat answer, or one of its tool calls has arguments that nobody can read. */
export function answerToMessages(answer: JsonObject, names: AnswerNames): JsonObject | null {
  const choice = objectOf(asArray(answer.choices)[0]);
  if (!isObject(choice.message)) return null;
  const id = filledText(answer.id) ?? names.id;
  const text = answerTextOf(choice.message);
  const calls = toolCallsOf(choice.message).map((call, position) => {
    const { name, arguments: argumentText } = objectOf(call.function);
    // An answer that was cut off may end within the arguments; its stop reason says so.
    const input = inputOf(argumentText) ?? (choice.finish_reason === 'length' ? {} : null);
    return { type: 'tool_use', id: filledText(call.id) ?? makeToolId('messages', id, position), name: filledText(name) ?? '', input };
  });
  if (calls.some(({ input }) => input === null)) return null;
  return {
    id,
    type: 'message',
    role: 'assistant',
    model: filledText(answer.model) ?? names.model,
    content: [...(text === '' ? [] : [{ type: 'text', text }]), ...calls],
    stop_reason: stopReasonOf(choice.finish_reason, calls.length > 0),
    stop_sequence: null,
    usage: messagesUsageOf(readChatUsage(plainNumbers(answer.usage))),
  };
}

function toolCallsOf({ tool_calls: calls, function_call: legacyCall }: JsonObject): JsonObject[] {
  return [...asArray(calls).map(objectOf), ...(isObject(legacyCall) ? [{ function: legacyCall }] : [])];
}

function refuseInexpressible(body: JsonObject): void {
  const { n, modalities, web_search_options: webSearch, functions } = body;
  if (n !== undefined && n !== null && numberOf(n) !== 1) refuse('n other than 1 cannot be expressed in the messages dialect');
  if (asArray(modalities).some((modality) => modality !== 'text')) refuse('only text can be answered in the messages dialect');
  if (isObject(webSearch)) refuse('web_search_options cannot be expressed in the messages dialect');
  if (asArray(functions).length > 0) refuse('functions cannot be expressed in the messages dialect; tools can');
}

/** A model may not think when it must call a tool, or when it goes on with a turn that it began without thinking. */
function mayThink(turns: readonly Turn[], { toolChoice }: ToolWishes): boolean {
  const last = turns.at(-1);
  const goesOn = last?.role === 'assistant' || last?.content.some((block) => block.type === 'tool_result');
  return !goesOn && toolChoice?.type !== 'any' && toolChoice?.type !== 'tool';
}

function samplingOf({ temperature, top_p: topP }: JsonObject): JsonObject {
  // The newest models refuse both together; a top_p of 1 says nothing.
  const saysNothing = numberOf(topP) === 1 && temperature !== undefined && temperature !== null;
  return { temperature: (numberOf(temperature) ?? 0) > 1 ? 1 : temperature, top_p: saysNothing ? null : topP };
}

function stopsOf(stop: unknown): unknown {
  return typeof stop === 'string' ? [stop] : stop;
}

function userOf({ user, safety_identifier: safetyIdentifier }: JsonObject): JsonObject | null {
  const id = filledText(user) ?? filledText(safetyIdentifier);
  return id === null ? null : { user_id: id };
}
