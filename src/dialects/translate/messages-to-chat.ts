/**
 * Messages things as chat things: the request of a caller of messages for a vendor of chat, and the plain answer of a vendor of
 * messages for a caller of chat (vendor facts 8.1 and 8.2). Pure. Bodies are parsed by `parseLossless`.
 *
 * What a request says and the other dialect cannot say is never left out: it is refused. Left out are only thinking and cache marks,
 * which are bound to their vendor, and plain parameters: `top_k`, `service_tier`, `context_management`, and those that nobody knows.
 */
import type { ModelTraits } from '../../core/call.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { asArray, asString } from '../../core/json/narrow.ts';
import { readMessagesUsage } from '../contract/token-usage.ts';
import { refuse } from '../contract/untranslatable.ts';
import { filledText, given, objectOf, plainNumbers } from '../json/lossless-json.ts';
import { answerToolName } from './json-answer-tool.ts';
import { readMessagesTools } from './messages-tools.ts';
import { readMessagesTurns } from './messages-turns.ts';
import { effortOf } from './reasoning.ts';
import type { AnswerNames } from './response-identity.ts';
import { chatUsageOf, finishReasonOf } from './stop-reasons.ts';
import { makeToolId } from './tool-ids.ts';

/** The model that is asked. */
export interface ChatTarget extends Pick<ModelTraits, 'reasons'> {
  readonly model: string;
  readonly stream: boolean;
  /** OpenAI's newer models know only the default, `max_completion_tokens`; some other vendors know only `max_tokens`. */
  readonly boundMember?: 'max_completion_tokens' | 'max_tokens';
}

/** Throws Untranslatable. */
export function requestToChat(body: JsonObject, target: ChatTarget): JsonObject {
  if (asArray(body.mcp_servers).length > 0) refuse('mcp_servers cannot be expressed in the chat dialect');
  if (body.container !== undefined && body.container !== null) refuse('container cannot be expressed in the chat dialect');
  return given({
    model: target.model,
    messages: readMessagesTurns(body),
    [target.boundMember ?? 'max_completion_tokens']: body.max_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    stop: stopsOf(body.stop_sequences),
    ...readMessagesTools(body),
    reasoning_effort: target.reasons === false ? null : effortOf(body),
    user: filledText(objectOf(body.metadata).user_id),
    ...(target.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
}

/** Null: this is no messages answer. */
export function answerToChat(answer: JsonObject, names: AnswerNames & { readonly createdSeconds: number }): JsonObject | null {
  if (!Array.isArray(answer.content)) return null;
  const blocks = answer.content.map(objectOf);
  const id = filledText(answer.id) ?? names.id;
  const calls = blocks.filter((block) => block.type === 'tool_use' && block.name !== answerToolName);
  const text = blocks.map(textOfBlock).join('');
  const toolCalls = calls.map((block, position) => ({
    id: filledText(block.id) ?? makeToolId('chat', id, position),
    type: 'function',
    function: { name: asString(block.name) ?? '', arguments: JSON.stringify(block.input ?? {}) },
  }));
  const message = {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
  const tokens = readMessagesUsage(plainNumbers(answer.usage), null);
  return {
    id,
    object: 'chat.completion',
    created: names.createdSeconds,
    model: filledText(answer.model) ?? names.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReasonOf(answer.stop_reason, toolCalls.length > 0) }],
    ...(tokens === null ? {} : { usage: chatUsageOf(tokens) }),
  };
}

function textOfBlock(block: JsonObject): string {
  if (block.type === 'tool_use' && block.name === answerToolName) return JSON.stringify(block.input ?? {});
  return block.type === 'text' ? (asString(block.text) ?? '') : '';
}

function stopsOf(stops: unknown): unknown {
  if (!Array.isArray(stops)) return stops;
  if (stops.length > mostStops) refuse('more than four stop sequences cannot be expressed in the chat dialect');
  return stops.length === 0 ? null : stops;
}

const mostStops = 4;
