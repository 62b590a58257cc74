/**
 * Translates the messages of a chat request to system blocks and turns of the messages dialect, and makes sure that the
 * roles alternate.
 */
import { asString, type JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject } from '../json/lossless-json.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { expectArray } from '../json/strict-json.ts';
import { readReasoning, signedParts, toThinkingBlocks } from './chat-reasoning.ts';
import { createToolIds, type ToolIds } from './ids.ts';
import { getCacheControl, toDocumentBlock, toImageBlock } from './media.ts';

export interface MessagesTurn {
  readonly role: 'user' | 'assistant';
  readonly content: readonly JsonObject[];
}

/**
 * Collects the texts of all system messages, and converts the other messages to turns with alternating roles. For that,
 * we merge consecutive messages with the same role, move tool results to the start of their turn, and make sure that
 * the user has the first turn.
 */
export function toMessagesTurns(messages: readonly unknown[]): { system: readonly JsonObject[]; turns: readonly MessagesTurn[] } {
  const system: JsonObject[] = [];
  const turns: { role: MessagesTurn['role']; content: JsonObject[] }[] = [];
  const ids = createToolIds('messages');

  const add = (role: MessagesTurn['role'], blocks: readonly JsonObject[]): void => {
    const last = turns.at(-1);
    // Don't use `push(...blocks)`, because a message can have more blocks than the stack can hold.
    if (last?.role === role) for (const block of blocks) last.content.push(block);
    else if (blocks.length > 0) turns.push({ role, content: [...blocks] });
  };

  for (const message of messages) {
    if (!isLosslessObject(message)) rejectUntranslatable('a message must be an object');
    switch (message.role) {
      case 'system':
      case 'developer':
        for (const block of toBlocks(message.content, textBlock)) system.push(block);
        break;
      case 'user':
        add('user', toBlocks(message.content, userBlock));
        break;
      case 'assistant':
        add('assistant', toAssistantBlocks(message, ids));
        break;
      case 'tool':
        add('user', [toToolResult(message, ids)]);
        break;
      default:
        rejectUntranslatable('the role of a message must be system, developer, user, assistant or tool');
    }
  }
  if (messages.length > 0 && turns[0]?.role !== 'user') turns.unshift({ role: 'user', content: [opening] });
  return { system, turns: turns.map(repairTurn) };
}

/**
 * Messages vendors require that the user has the first turn. If a conversation starts with a greeting by the assistant,
 * or has nothing but instructions, we start it with this text.
 */
const opening = { type: 'text', text: 'Begin.' };

function repairTurn({ role, content }: MessagesTurn, position: number, turns: readonly MessagesTurn[]): MessagesTurn {
  if (role === 'user') {
    const isResult = (block: JsonObject): boolean => block.type === 'tool_result';
    return { role, content: [...content.filter(isResult), ...content.filter((block) => !isResult(block))] };
  }
  // Vendors reject a prefill that ends with white space.
  const last = content.at(-1);
  const text = last?.type === 'text' ? asString(last.text) : null;
  if (position < turns.length - 1 || text === null) return { role, content };
  return { role, content: [...content.slice(0, -1), { ...last, text: text.trimEnd() }] };
}

/** Returns the content of a message as blocks. Blank blocks are left out, because vendors reject them. */
function toBlocks(content: unknown, blockOf: (part: JsonObject) => JsonObject): JsonObject[] {
  if (content === undefined || content === null) return [];
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  if (!Array.isArray(parts)) rejectUntranslatable('the content of a message must be text or a list of parts');
  return parts
    .map((part: unknown) => blockOf(isLosslessObject(part) ? part : rejectUntranslatable('a content part of a message must be an object')))
    .filter((block) => block.type !== 'text' || asString(block.text)?.trim() !== '');
}

function textBlock(part: JsonObject): JsonObject {
  if (part.type !== 'text' || typeof part.text !== 'string')
    return rejectUntranslatable('vendors that use the messages dialect only accept text in this message');
  return { type: 'text', text: part.text, ...getCacheControl(part) };
}

function userBlock(part: JsonObject): JsonObject {
  switch (part.type) {
    case 'image_url':
      return { ...toImageBlock(part), ...getCacheControl(part) };
    case 'file':
      return { ...toDocumentBlock(part), ...getCacheControl(part) };
    case 'input_audio':
      return rejectUntranslatable('input_audio is not supported by vendors that use the messages dialect');
    default:
      return textBlock(part);
  }
}

function assistantBlock(part: JsonObject): JsonObject {
  return part.type === 'refusal' ? textBlock({ type: 'text', text: part.refusal }) : textBlock(part);
}

/** The blocks of an assistant message have to start with its thinking. */
function toAssistantBlocks(message: JsonObject, ids: ToolIds): JsonObject[] {
  if (isLosslessObject(message.function_call))
    rejectUntranslatable('function_call is not supported by vendors that use the messages dialect; use tool_calls');
  if (isLosslessObject(message.audio))
    rejectUntranslatable('audio in assistant messages is not supported by vendors that use the messages dialect');
  const refusal = asNonEmptyString(message.refusal);
  const calls = expectArray(message.tool_calls, 'tool_calls');
  const blocks = [
    ...toBlocks(thinkingOmitted(message.content), assistantBlock),
    ...toBlocks(refusal, textBlock),
    ...calls.map((call) => toToolUse(asLosslessObject(call), ids)),
  ];
  // A message with nothing but thinking isn't valid, so drop it.
  return blocks.length === 0 ? [] : [...toThinkingBlocks(signedParts(readReasoning(message))), ...blocks];
}

function thinkingOmitted(content: unknown): unknown {
  return Array.isArray(content) ? content.filter((part: unknown) => asLosslessObject(part).type !== 'thinking') : content;
}

function toToolUse({ id, type, function: fn }: JsonObject, ids: ToolIds): JsonObject {
  if (!isLosslessObject(fn) || (type !== undefined && type !== 'function')) rejectUntranslatable('a tool call must be a function call');
  const name = asNonEmptyString(fn.name) ?? rejectUntranslatable('a tool call must have a name');
  const input = parseToolInput(fn.arguments) ?? rejectUntranslatable('the arguments of a tool call must be a JSON object');
  return { type: 'tool_use', id: ids.forCall(id), name, input };
}

/**
 * Parses the arguments of a tool call. An empty string means that there are no arguments. Returns null if the text
 * isn't a JSON object.
 */
export function parseToolInput(argumentText: unknown): JsonObject | null {
  const input = typeof argumentText === 'string' && argumentText.trim() !== '' ? parseLossless(argumentText) : (argumentText ?? '');
  if (input === null || (typeof input === 'string' && input.trim() === '')) return {};
  return isLosslessObject(input) ? input : null;
}

function toToolResult({ tool_call_id: id, content }: JsonObject, ids: ToolIds): JsonObject {
  const result = typeof content === 'string' ? content : toBlocks(content, userBlock);
  return { type: 'tool_result', tool_use_id: ids.forResult(id), content: result };
}
