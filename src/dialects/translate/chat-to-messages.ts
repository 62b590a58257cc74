/**
 * Translates chat to messages: the request of a chat caller for a messages vendor, and the JSON response of a chat vendor for a messages
 * caller. Pure. Bodies come from `parseLossless`.
 *
 * A member that changes the meaning and has no equivalent makes the request untranslatable. Only `seed`, `logprobs`, `logit_bias`, penalties,
 * `store`, `service_tier`, `metadata`, `verbosity`, `prediction`, the `name` of a message and unknown parameters are dropped, and with thinking
 * `temperature` and `top_p`. A `temperature` above 1 becomes 1.
 */
import type { ModelTraits } from '../../core/candidate.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { asArray } from '../../core/json/narrow.ts';
import { listToolCalls } from '../chat/tool-calls.ts';
import { parseChatUsage } from '../contract/token-usage.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, asNumber, isLosslessObject, omitNullish, toPlainNumbers } from '../json/lossless-json.ts';
import { readReasoning, toThinkingBlocks } from './chat-reasoning.ts';
import { getResponseText } from './chat-text.ts';
import { type ToolSettings, toToolSettings } from './chat-tools.ts';
import { type MessagesTurn, parseToolInput, toMessagesTurns } from './chat-turns.ts';
import { toThinking } from './reasoning.ts';
import { toResponseId } from './response-ids.ts';
import { toMessagesUsage, toStopReason } from './stop-reasons.ts';
import { createToolId, type ResponseIdentity } from './tool-ids.ts';

/** The model that the request is sent to. */
export interface MessagesTarget extends Pick<ModelTraits, 'supportsSchema' | 'thinking'> {
  readonly model: string;
  /** Used when the caller set no limit: the model's own limit, or 4,096. */
  readonly maxTokens: number;
  readonly stream: boolean;
}

/** Throws UntranslatableError. */
export function requestToMessages(body: JsonObject, target: MessagesTarget): JsonObject {
  rejectInexpressible(body);
  if (!Array.isArray(body.messages)) rejectUntranslatable('messages is not a list');
  const { system, turns } = toMessagesTurns(asArray(body.messages));
  const maxTokens = body.max_completion_tokens ?? body.max_tokens ?? target.maxTokens;
  // A model without support for schemas returns JSON through a tool that it is forced to call.
  const settings = toToolSettings(body, turns, target.supportsSchema ?? false);
  const thinking = mayThink(turns, settings)
    ? toThinking(body.reasoning_effort, asNumber(maxTokens) ?? 0, target.thinking ?? 'budget')
    : null;
  const outputConfig = omitNullish({ format: settings.format, effort: thinking?.effort });
  return omitNullish({
    model: target.model,
    max_tokens: maxTokens,
    system: system.length > 0 ? system : null,
    messages: turns,
    // A thinking model accepts neither temperature nor top_p.
    ...(thinking === null ? toSampling(body) : {}),
    stop_sequences: toStopSequences(body.stop),
    tools: settings.tools.length > 0 ? settings.tools : null,
    tool_choice: settings.toolChoice,
    thinking: thinking?.thinking,
    output_config: Object.keys(outputConfig).length > 0 ? outputConfig : null,
    metadata: toMetadata(body),
    stream: target.stream ? true : null,
  });
}

/** What the caller of a translated response wants. */
export interface ThinkingOptions {
  /** The caller did not ask for thinking: it may read the first block as text, as it can from the vendor. */
  readonly hidesThinking?: boolean;
}

/** Null when `response` is not a chat response or the arguments of a tool call are not JSON. */
export function responseToMessages(response: JsonObject, names: ResponseIdentity, options: ThinkingOptions = {}): JsonObject | null {
  const choice = asLosslessObject(asArray(response.choices)[0]);
  if (!isLosslessObject(choice.message)) return null;
  const id = toResponseId('messages', asNonEmptyString(response.id) ?? names.id);
  const thinking = options.hidesThinking ? [] : toThinkingBlocks(readReasoning(choice.message));
  const text = getResponseText(choice.message);
  const calls = listToolCalls(choice.message).map((call, position) => {
    const { name, arguments: argumentText } = asLosslessObject(call.function);
    // A truncated response may end within the arguments; its stop reason says so.
    const input = parseToolInput(argumentText) ?? (choice.finish_reason === 'length' ? {} : null);
    return {
      type: 'tool_use',
      id: asNonEmptyString(call.id) ?? createToolId('messages', id, position),
      name: asNonEmptyString(name) ?? '',
      input,
    };
  });
  if (calls.some(({ input }) => input === null)) return null;
  return {
    id,
    type: 'message',
    role: 'assistant',
    model: asNonEmptyString(response.model) ?? names.model,
    content: [...thinking, ...(text === '' ? [] : [{ type: 'text', text }]), ...calls],
    stop_reason: toStopReason(choice.finish_reason, calls.length > 0),
    stop_sequence: null,
    usage: toMessagesUsage(parseChatUsage(toPlainNumbers(response.usage))),
  };
}

function rejectInexpressible(body: JsonObject): void {
  const { n, modalities, web_search_options: webSearch, functions } = body;
  if (n !== undefined && n !== null && asNumber(n) !== 1)
    rejectUntranslatable('n other than 1 cannot be expressed in the messages dialect');
  if (asArray(modalities).some((modality) => modality !== 'text'))
    rejectUntranslatable('only text output can be expressed in the messages dialect');
  if (isLosslessObject(webSearch)) rejectUntranslatable('web_search_options cannot be expressed in the messages dialect');
  if (asArray(functions).length > 0) rejectUntranslatable('functions cannot be expressed in the messages dialect; tools can');
}

/** Vendors reject thinking when a tool call is forced, or when the model continues a turn that it started without thinking. */
function mayThink(turns: readonly MessagesTurn[], { toolChoice }: ToolSettings): boolean {
  if (toolChoice?.type === 'any' || toolChoice?.type === 'tool' || turns.at(-1)?.role === 'assistant') return false;
  // The turn starts after the last question; results of tools continue it.
  const question = turns.findLastIndex(({ role, content }) => role === 'user' && !content.some((block) => block.type === 'tool_result'));
  const started = turns.slice(question + 1).find(({ role }) => role === 'assistant')?.content[0];
  return started === undefined || started.type === 'thinking' || started.type === 'redacted_thinking';
}

function toSampling({ temperature, top_p: topP }: JsonObject): JsonObject {
  // The newest models reject both together; a top_p of 1 is the default.
  const isDefaultTopP = asNumber(topP) === 1 && temperature !== undefined && temperature !== null;
  return { temperature: (asNumber(temperature) ?? 0) > 1 ? 1 : temperature, top_p: isDefaultTopP ? null : topP };
}

function toStopSequences(stop: unknown): unknown {
  return typeof stop === 'string' ? [stop] : stop;
}

function toMetadata({ user, safety_identifier: safetyIdentifier }: JsonObject): JsonObject | null {
  const id = asNonEmptyString(user) ?? asNonEmptyString(safetyIdentifier);
  return id === null ? null : { user_id: id };
}
