/** Messages of a chat request as system blocks and turns of the messages dialect, with its rules about roles repaired. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asString } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject } from '../json/lossless-json.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { getCacheControl, toDocumentBlock, toImageBlock } from './media.ts';
import { createToolIds, type ToolIds } from './tool-ids.ts';

/** A message of the messages dialect. */
export interface MessagesTurn {
  readonly role: 'user' | 'assistant';
  readonly content: readonly JsonObject[];
}

/**
 * System texts of any position, in order, and the rest as turns that change sides: neighbours of one role are one turn, tool results
 * stand first in theirs, and the user begins.
 */
export function toMessagesTurns(messages: readonly unknown[]): { system: readonly JsonObject[]; turns: readonly MessagesTurn[] } {
  const system: JsonObject[] = [];
  const turns: { role: MessagesTurn['role']; content: JsonObject[] }[] = [];
  const ids = createToolIds('messages');

  const add = (role: MessagesTurn['role'], blocks: readonly JsonObject[]): void => {
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else if (blocks.length > 0) turns.push({ role, content: [...blocks] });
  };

  for (const message of messages) {
    if (!isLosslessObject(message)) rejectUntranslatable('a message is no object');
    switch (message.role) {
      case 'system':
      case 'developer':
        system.push(...toBlocks(message.content, textBlock));
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
        rejectUntranslatable('a message has a role that the messages dialect does not know');
    }
  }
  if (messages.length > 0 && turns[0]?.role !== 'user') turns.unshift({ role: 'user', content: [opening] });
  return { system, turns: turns.map(repairTurn) };
}

/** The vendor wants the user to begin; a conversation may have begun with the assistant's greeting, or with instructions alone. */
const opening = { type: 'text', text: 'Begin.' };

function repairTurn({ role, content }: MessagesTurn, position: number, turns: readonly MessagesTurn[]): MessagesTurn {
  if (role === 'user') {
    const isResult = (block: JsonObject): boolean => block.type === 'tool_result';
    return { role, content: [...content.filter(isResult), ...content.filter((block) => !isResult(block))] };
  }
  // An answer that is begun may not end in white space.
  const last = content.at(-1);
  const text = last?.type === 'text' ? asString(last.text) : null;
  if (position < turns.length - 1 || text === null) return { role, content };
  return { role, content: [...content.slice(0, -1), { ...last, text: text.trimEnd() }] };
}

/** Blocks of a message's content; blank texts, which the vendor refuses, are left out. */
function toBlocks(content: unknown, blockOf: (part: JsonObject) => JsonObject): JsonObject[] {
  if (content === undefined || content === null) return [];
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  if (!Array.isArray(parts)) rejectUntranslatable('the content of a message is neither text nor a list of parts');
  return parts
    .map((part: unknown) => blockOf(isLosslessObject(part) ? part : rejectUntranslatable('a part of a message is no object')))
    .filter((block) => block.type !== 'text' || asString(block.text)?.trim() !== '');
}

function textBlock(part: JsonObject): JsonObject {
  if (part.type !== 'text' || typeof part.text !== 'string')
    return rejectUntranslatable('only text can stand in this place of the messages dialect');
  return { type: 'text', text: part.text, ...getCacheControl(part) };
}

function userBlock(part: JsonObject): JsonObject {
  switch (part.type) {
    case 'image_url':
      return { ...toImageBlock(part), ...getCacheControl(part) };
    case 'file':
      return { ...toDocumentBlock(part), ...getCacheControl(part) };
    case 'input_audio':
      return rejectUntranslatable('input_audio cannot be expressed in the messages dialect');
    default:
      return textBlock(part);
  }
}

function assistantBlock(part: JsonObject): JsonObject {
  return part.type === 'refusal' ? textBlock({ type: 'text', text: part.refusal }) : textBlock(part);
}

/** Reasoning is left out: a vendor of messages takes only thinking that it signed itself. */
function toAssistantBlocks(message: JsonObject, ids: ToolIds): JsonObject[] {
  if (isLosslessObject(message.function_call)) rejectUntranslatable('function_call cannot be expressed in the messages dialect');
  if (isLosslessObject(message.audio)) rejectUntranslatable('audio of the assistant cannot be expressed in the messages dialect');
  const refusal = asNonEmptyString(message.refusal);
  const calls = message.tool_calls ?? [];
  if (!Array.isArray(calls)) rejectUntranslatable('tool_calls is no list');
  return [
    ...toBlocks(message.content, assistantBlock),
    ...toBlocks(refusal, textBlock),
    ...calls.map((call: unknown) => toToolUse(asLosslessObject(call), ids)),
  ];
}

function toToolUse({ id, type, function: fn }: JsonObject, ids: ToolIds): JsonObject {
  if (!isLosslessObject(fn) || (type !== undefined && type !== 'function')) rejectUntranslatable('a tool call is no function call');
  const name = asNonEmptyString(fn.name) ?? rejectUntranslatable('a tool call has no name');
  const input = parseToolInput(fn.arguments) ?? rejectUntranslatable('the arguments of a tool call are no JSON object');
  return { type: 'tool_use', id: ids.forCall(id), name, input };
}

/** Arguments of a tool call as an object; null when they are none. Nothing at all means no arguments. */
export function parseToolInput(argumentText: unknown): JsonObject | null {
  const input = typeof argumentText === 'string' && argumentText.trim() !== '' ? parseLossless(argumentText) : (argumentText ?? '');
  if (input === null || (typeof input === 'string' && input.trim() === '')) return {};
  return isLosslessObject(input) ? input : null;
}

function toToolResult({ tool_call_id: id, content }: JsonObject, ids: ToolIds): JsonObject {
  const result = typeof content === 'string' ? content : toBlocks(content, userBlock);
  return { type: 'tool_result', tool_use_id: ids.forResult(id), content: result };
}
