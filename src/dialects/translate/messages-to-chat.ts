/**
 * Translates messages to chat, i.e. the request of a messages caller for a chat vendor, and the JSON response of a
 * messages vendor for a chat caller. Bodies have to come from `parseLossless`.
 *
 * See `member-rules.ts` for the fields that we translate, and for what happens to other fields.
 */
import { asString, type JsonObject } from '../../core/json/narrow.ts';
import { parseMessagesUsage } from '../contract/token-usage.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, omitNullish, toPlainNumbers } from '../json/lossless-json.ts';
import { readThinkingBlock, toReasoningMembers } from './chat-reasoning.ts';
import { createToolId, type ResponseIdentity, toResponseId } from './ids.ts';
import { jsonAnswerToolName } from './json-answer-tool.ts';
import { messagesToChat } from './member-rules.ts';
import { toChatTools } from './messages-tools.ts';
import { toChatMessages } from './messages-turns.ts';
import { toReasoningEffort } from './reasoning.ts';
import { applyRules, createChanges } from './request-changes.ts';
import { toChatUsage, toFinishReason } from './stop-reasons.ts';
import type { ChatTarget } from './targets.ts';

/**
 * Records every field that's dropped or adjusted in `changes`. Throws UntranslatableError if the chat dialect can't
 * express the request.
 */
export function requestToChat(body: JsonObject, target: ChatTarget, changes = createChanges()): JsonObject {
  applyRules(body, messagesToChat, target, changes);
  return omitNullish({
    model: target.model,
    messages: toChatMessages(body, target.takesReasoning),
    [target.maxTokensField ?? 'max_completion_tokens']: body.max_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    stop: toStop(body.stop_sequences),
    ...toChatTools(body),
    reasoning_effort: target.reasons === false ? null : toReasoningEffort(body),
    user: asNonEmptyString(asLosslessObject(body.metadata).user_id),
    ...(target.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
}

/** Returns null if `response` isn't a messages response. */
export function responseToChat(response: JsonObject, names: ResponseIdentity & { readonly createdSeconds: number }): JsonObject | null {
  if (!Array.isArray(response.content)) return null;
  const blocks = response.content.map(asLosslessObject);
  const id = toResponseId('chat', asNonEmptyString(response.id) ?? names.id);
  const calls = blocks.filter((block) => block.type === 'tool_use' && block.name !== jsonAnswerToolName);
  const text = blocks.map(getBlockText).join('');
  const toolCalls = calls.map((block, position) => ({
    id: asNonEmptyString(block.id) ?? createToolId('chat', id, position),
    type: 'function',
    function: { name: asString(block.name) ?? '', arguments: JSON.stringify(block.input ?? {}) },
  }));
  const message = {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...toReasoningMembers(blocks.flatMap(readThinkingBlock)),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
  const tokens = parseMessagesUsage(toPlainNumbers(response.usage), null);
  return {
    id,
    object: 'chat.completion',
    created: names.createdSeconds,
    model: asNonEmptyString(response.model) ?? names.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: toFinishReason(response.stop_reason, toolCalls.length > 0) }],
    ...(tokens === null ? {} : { usage: toChatUsage(tokens) }),
  };
}

function getBlockText(block: JsonObject): string {
  if (block.type === 'tool_use' && block.name === jsonAnswerToolName) return JSON.stringify(block.input ?? {});
  return block.type === 'text' ? (asString(block.text) ?? '') : '';
}

function toStop(stops: unknown): unknown {
  if (!Array.isArray(stops)) return stops;
  if (stops.length > maxStops) rejectUntranslatable('stop_sequences: vendors that use the chat dialect support at most four sequences');
  return stops.length === 0 ? null : stops;
}

const maxStops = 4;
