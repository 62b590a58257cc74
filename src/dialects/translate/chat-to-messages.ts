/**
 * Translates chat to messages, i.e. the request of a chat caller for a messages vendor, and the JSON response of a chat
 * vendor for a messages caller. Bodies have to come from `parseLossless`.
 *
 * See `member-rules.ts` for the fields that we translate, and for what happens to other fields.
 */
import { asArray, type JsonObject } from '../../core/json/narrow.ts';
import { listToolCalls } from '../chat/tool-calls.ts';
import { parseChatUsage } from '../contract/token-usage.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, asNumber, isLosslessObject, omitNullish, toPlainNumbers } from '../json/lossless-json.ts';
import { readReasoning, toThinkingBlocks } from './chat-reasoning.ts';
import { getResponseText } from './chat-text.ts';
import { type ToolSettings, toToolSettings } from './chat-tools.ts';
import { type MessagesTurn, parseToolInput, toMessagesTurns } from './chat-turns.ts';
import { createToolId, type ResponseIdentity, toResponseId } from './ids.ts';
import { chatToMessages } from './member-rules.ts';
import { readRequestedReasoning, toThinking } from './reasoning.ts';
import { applyRules, createChanges, type RequestChanges } from './request-changes.ts';
import { toMessagesUsage, toStopReason } from './stop-reasons.ts';
import type { MessagesTarget } from './targets.ts';

/**
 * Records every field that's dropped or adjusted in `changes`. Throws UntranslatableError if the messages dialect can't
 * express the request.
 */
export function requestToMessages(body: JsonObject, target: MessagesTarget, changes = createChanges()): JsonObject {
  applyRules(body, chatToMessages, target, changes);
  if (!Array.isArray(body.messages)) rejectUntranslatable('messages: must be a list');
  const { system, turns } = toMessagesTurns(asArray(body.messages));
  const maxTokens = body.max_completion_tokens ?? body.max_tokens ?? target.maxTokens;
  // If the model doesn't support schemas, it's forced to call a tool to produce JSON.
  const settings = toToolSettings(body, turns, target.supportsSchema ?? false);
  const reasoning = readRequestedReasoning(body);
  const thinking =
    reasoning && mayThink(turns, settings) ? toThinking(reasoning, asNumber(maxTokens) ?? 0, target.thinking ?? 'budget') : null;
  if (thinking === null) for (const name of reasoning?.members ?? []) changes.dropped.add(name);
  else if (thinking.isReduced) for (const name of reasoning?.members ?? []) changes.adjusted.add(name);
  if (thinking !== null) for (const name of samplingNames) if ((body[name] ?? null) !== null) dropSampling(name, changes);
  const outputConfig = omitNullish({ format: settings.format, effort: thinking?.effort });
  return omitNullish({
    model: target.model,
    max_tokens: maxTokens,
    system: system.length > 0 ? system : null,
    messages: turns,
    ...(thinking === null ? { ...toSampling(body), top_k: body.top_k } : {}),
    stop_sequences: toStopSequences(body.stop),
    tools: settings.tools.length > 0 ? settings.tools : null,
    tool_choice: settings.toolChoice,
    thinking: thinking?.thinking,
    output_config: Object.keys(outputConfig).length > 0 ? outputConfig : null,
    metadata: toMetadata(body),
    stream: target.stream ? true : null,
  });
}

export interface ThinkingOptions {
  /**
   * True if the caller didn't ask for thinking. We then leave it out of the response like Anthropic does, because
   * clients may rely on the first block being text.
   */
  readonly hidesThinking?: boolean;
}

/** Returns null if `response` isn't a chat response, or if the arguments of a tool call aren't a JSON object. */
export function responseToMessages(response: JsonObject, names: ResponseIdentity, options: ThinkingOptions = {}): JsonObject | null {
  const choice = asLosslessObject(asArray(response.choices)[0]);
  if (!isLosslessObject(choice.message)) return null;
  const id = toResponseId('messages', asNonEmptyString(response.id) ?? names.id);
  const thinking = options.hidesThinking ? [] : toThinkingBlocks(readReasoning(choice.message));
  const text = getResponseText(choice.message);
  const calls = listToolCalls(choice.message).map((call, position) => {
    const { name, arguments: argumentText } = asLosslessObject(call.function);
    // A truncated response can end in the middle of the arguments. That's fine, because the stop reason tells the
    // caller.
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

/** Models reject these fields while thinking is on. */
const samplingNames = ['temperature', 'top_p', 'top_k'];

function dropSampling(name: string, { dropped, adjusted }: RequestChanges): void {
  adjusted.delete(name);
  dropped.add(name);
}

/**
 * Checks whether the model can think at this point. Vendors reject thinking if a tool call is forced, or if the model
 * still has to finish a turn that it began without thinking.
 */
function mayThink(turns: readonly MessagesTurn[], { toolChoice }: ToolSettings): boolean {
  if (toolChoice?.type === 'any' || toolChoice?.type === 'tool' || turns.at(-1)?.role === 'assistant') return false;
  // A turn begins with the user's last question. Messages with tool results continue the turn.
  const question = turns.findLastIndex(({ role, content }) => role === 'user' && !content.some((block) => block.type === 'tool_result'));
  const started = turns.slice(question + 1).find(({ role }) => role === 'assistant')?.content[0];
  return started === undefined || started.type === 'thinking' || started.type === 'redacted_thinking';
}

function toSampling({ temperature, top_p: topP }: JsonObject): JsonObject {
  // The newest models reject requests that set both `temperature` and `top_p`. A `top_p` of 1 can be dropped because
  // it's the default.
  const isDefaultTopP = asNumber(topP) === 1 && temperature !== undefined && temperature !== null;
  return { temperature: (asNumber(temperature) ?? 0) > 1 ? 1 : temperature, top_p: isDefaultTopP ? null : topP };
}

function toStopSequences(stop: unknown): unknown {
  const stops = typeof stop === 'string' ? [stop] : stop;
  if (!Array.isArray(stops)) return stops;
  const filled = stops.filter((text) => text !== '');
  if (filled.some((text) => typeof text === 'string' && text.trim() === ''))
    rejectUntranslatable('stop: vendors that use the messages dialect reject sequences that consist only of whitespace', { param: 'stop' });
  return filled.length === 0 ? null : filled;
}

function toMetadata({ user, safety_identifier: safetyIdentifier }: JsonObject): JsonObject | null {
  const id = asNonEmptyString(user) ?? asNonEmptyString(safetyIdentifier);
  return id === null ? null : { user_id: id };
}
