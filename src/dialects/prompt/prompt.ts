/**
 * Parses the messages of a request body into a normal form that has the text of the user and the assistant, and the
 * tools that the assistant called. Everything else in the prompt becomes an extra with a position, e.g. system prompts,
 * tool results, thinking, and digests of binary content (docs/architecture/memory.md).
 *
 * This never throws. Malformed parts are skipped or stored as extras. It runs on the event loop, so it takes linear
 * time and we limit how much we store (`prompt-limits.ts`).
 *
 * Responses are normalized by the same rules, so that a response equals its copy in the next request. We join the
 * assistant's text parts without a separator, because vendors split text at citations and tool calls. The user's parts
 * are joined by line feeds.
 */
import type { AssistantTurn, PromptRoute } from '../../core/call.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { foldDataUrls } from '../json/data-url.ts';
import { toJsonText } from '../json/json-text.ts';
import { opaqueExtra, type PromptExtra, textExtra, toExtras, toToolExtra } from './prompt-extras.ts';
import { collectNewest, maxToolCalls, newestBlocks, newestMessages, truncateText } from './prompt-limits.ts';
import { stripRecalled } from './recalled-block.ts';

/**
 * The normalized form of a message. We use it to store messages, to link them into conversations, and to learn from
 * them.
 */
export interface NormalMessage {
  readonly role: 'user' | 'assistant';
  readonly text: string;
  readonly toolCalls: AssistantTurn['toolCalls'];
}

/**
 * A part of the prompt that isn't a message. `position` is the number of messages up to this part, including the
 * message that contains it. We store this type as JSON.
 */
export type PositionedExtra = PromptExtra & { readonly position: number };

export interface Prompt {
  readonly messages: readonly NormalMessage[];
  readonly extras: readonly PositionedExtra[];
  /**
   * True if the last message is a prefill, i.e. the beginning of the response, which the model has to continue. Only
   * the messages dialect has these.
   */
  readonly isPrefilled: boolean;
}

export type { PromptExtra };

/**
 * The result of parsing a part of the prompt, i.e. a message, an extra (anything else in the prompt), or a `pause`,
 * which separates two assistant messages that belong to different responses. We don't call `read` until we store the
 * extra, because it takes time.
 */
export type Step = MessageStep | ExtraStep | { readonly kind: 'pause' };

export type MessageStep = { readonly kind: 'message' } & NormalMessage;

interface ExtraStep {
  readonly kind: 'extra';
  readonly isSystem: boolean;
  readonly read: () => readonly PromptExtra[];
}

export function parsePrompt(route: PromptRoute, body: unknown): Prompt {
  const request = asObject(body);
  const { system, list } = promptMembers[route];
  const value = request[list];
  const messages = route === 'responses' && typeof value === 'string' ? [{ role: 'user', content: value }] : newestMessages(value);
  const steps = [
    ...newestMessages(request.tools).flatMap((tool) => parsePiece(route, 'tool', tool)),
    ...(system === null ? [] : parsePiece(route, 'system', request[system])),
    ...messages.flatMap((message) => parsePiece(route, 'message', message)),
  ];
  const lastIsAssistant = route === 'messages' && asObject(messages.at(-1)).role === 'assistant';
  return collect(route === 'responses' ? joinItems(steps) : steps, lastIsAssistant);
}

/** The fields that contain the prompt on each route, besides `tools`. */
export const promptMembers = {
  chat: { system: null, list: 'messages' },
  messages: { system: 'system', list: 'messages' },
  responses: { system: 'instructions', list: 'input' },
} as const satisfies Record<PromptRoute, object>;

/**
 * We parse a prompt piece by piece. A piece is a tool, an element of the message list, or a block of the system prompt
 * (or all of it if it's a string).
 */
export type PieceKind = 'tool' | 'system' | 'message';

/** Parses a piece. The result doesn't depend on the rest of the prompt, so it can be cached. */
export function parsePiece(route: PromptRoute, kind: PieceKind, value: unknown): Step[] {
  if (kind === 'tool') return [extraStep(() => [toToolExtra(value)], true)];
  if (kind === 'system') return systemSteps(promptMembers[route].system ?? 'system', value);
  return route === 'chat' ? parseChatMessage(value) : route === 'messages' ? parseMessagesMessage(value) : parseItem(value);
}

/**
 * Normalizes a message so that PostgreSQL can store its text. Tool calls without a name are dropped. Returns null if
 * nothing remains.
 */
export function normalizeMessage(role: NormalMessage['role'], turn: AssistantTurn): NormalMessage | null {
  const text = toPostgresText(truncateText(foldDataUrls(stripRecalled(turn.text))));
  const toolCalls = turn.toolCalls.length === 0 ? turn.toolCalls : normalizeToolCalls(turn.toolCalls);
  return text.trim() === '' && toolCalls.length === 0 ? null : { role, text, toolCalls };
}

function normalizeToolCalls(toolCalls: AssistantTurn['toolCalls']): AssistantTurn['toolCalls'] {
  return toolCalls
    .slice(0, maxToolCalls)
    .map((call) => ({ name: toPostgresText(call.name), arguments: toPostgresText(truncateText(stripRecalled(call.arguments))) }))
    .filter((call) => call.name !== '');
}

function collect(steps: readonly Step[], lastIsAssistant: boolean): Prompt {
  const messages: NormalMessage[] = [];
  const extraSteps: (ExtraStep & { readonly position: number })[] = [];
  for (const step of steps) {
    if (step.kind === 'extra') extraSteps.push({ ...step, position: messages.length });
    if (step.kind !== 'message') continue;
    const message = normalizeMessage(step.role, step);
    if (message) messages.push(message);
  }
  const last = messages.at(-1);
  const extras =
    extraSteps.length === 0 ? [] : collectNewest(extraSteps, ({ position, read }) => read().map((extra) => ({ position, ...extra })));
  return { messages, extras, isPrefilled: lastIsAssistant && last?.role === 'assistant' && last.toolCalls.length === 0 };
}

function parseChatMessage(message: unknown): Step[] {
  if (!isObject(message)) return [];
  const { role, content } = message;
  switch (role) {
    case 'system':
    case 'developer':
      return systemSteps(role, content);
    case 'user':
      return parseContent('user', content);
    case 'assistant':
      return parseChatAssistant(message);
    case 'tool':
    case 'function':
      return textSteps('tool_result', role, content);
    default:
      return otherSteps(message);
  }
}

function parseChatAssistant(message: JsonObject): Step[] {
  const thinking = asString(message.reasoning_content) ?? asString(message.reasoning);
  const calls = [...asArray(message.tool_calls), ...(isObject(message.function_call) ? [{ function: message.function_call }] : [])];
  const functions = calls.map((call) => asObject(call).function);
  const functionCalls = functions.filter(isObject).slice(0, maxToolCalls);
  const toolCalls = functionCalls.map((fn) => ({ name: asString(fn.name) ?? '', arguments: toArgumentsText(fn.arguments) }));
  // Other kinds of calls (`custom`) become extras, because we don't count them as function calls in responses either.
  const others = calls.filter((call) => !isObject(asObject(call).function)).flatMap(otherSteps);
  const steps = parseContent('assistant', message.content ?? message.refusal, toolCalls);
  return [...(thinking ? [extraStep(() => [textExtra('thinking', 'reasoning', thinking)])] : []), ...others, ...steps];
}

function parseMessagesMessage(message: unknown): Step[] {
  if (!isObject(message)) return [];
  const { role, content } = message;
  if (role === 'user' || role === 'assistant') return parseContent(role, content);
  return role === 'system' ? systemSteps('system', content) : otherSteps(message);
}

function parseItem(item: unknown): Step[] {
  if (!isObject(item)) return [];
  const { type, role, content } = item;
  switch (type) {
    case undefined:
    case null:
    case 'message':
      if (role === 'user') return [{ kind: 'pause' }, ...parseContent('user', content)];
      if (role === 'assistant') return parseContent('assistant', content);
      return role === 'system' || role === 'developer' ? systemSteps(role, content) : otherSteps(item);
    case 'function_call':
    case 'custom_tool_call': {
      const argumentText = toArgumentsText(type === 'function_call' ? item.arguments : item.input);
      return [{ kind: 'message', role: 'assistant', text: '', toolCalls: [{ name: asString(item.name) ?? '', arguments: argumentText }] }];
    }
    case 'function_call_output':
    case 'custom_tool_call_output':
      return [{ kind: 'pause' }, ...textSteps('tool_result', type, item.output)];
    case 'reasoning':
      return thinkingSteps(item);
    default:
      return otherSteps(item);
  }
}

/**
 * Merges the text and the function calls of a response, which are separate items, into one message. `Read` is the type
 * of steps that were parsed earlier. They never come from the assistant, so they pass through unchanged.
 */
export function joinItems<Read extends { readonly kind: 'message' | 'extra' | 'pause' }>(steps: readonly (Step | Read)[]): (Step | Read)[] {
  const joined: (Step | Read)[] = [];
  // Append to this message in place, because copying it for each item would take quadratic time.
  let open: { kind: 'message'; role: 'assistant'; text: string; toolCalls: AssistantTurn['toolCalls'][number][] } | null = null;
  for (const step of steps) {
    if (step.kind === 'message' && 'text' in step && step.role === 'assistant') {
      if (!open) {
        open = { kind: 'message', role: 'assistant', text: '', toolCalls: [] };
        joined.push(open);
      }
      open.text += step.text;
      for (const call of step.toolCalls) open.toolCalls.push(call);
      continue;
    }
    if (step.kind !== 'extra') open = null;
    if (step.kind !== 'pause') joined.push(step);
  }
  return joined;
}

/**
 * Parses the content of a user or assistant message. Returns a step for its text and tool calls, and further steps for
 * its other blocks.
 */
function parseContent(role: NormalMessage['role'], content: unknown, calls: AssistantTurn['toolCalls'] = []): Step[] {
  if (typeof content === 'string') return [{ kind: 'message', role, text: content, toolCalls: calls }];
  const blocks = newestBlocks(content);
  const texts: string[] = [];
  const toolCalls = [...calls];
  const steps: Step[][] = [];
  for (const block of blocks) {
    const text = getBlockText(block);
    if (text !== null) texts.push(text);
    else if (!isObject(block)) continue;
    else if (block.type === 'tool_result') steps.push(textSteps('tool_result', block.type, block.content));
    else if (block.type === 'thinking' || block.type === 'redacted_thinking') steps.push(thinkingSteps(block));
    else if (block.type !== 'tool_use') steps.push(otherSteps(block));
    else if (toolCalls.length < maxToolCalls) toolCalls.push({ name: asString(block.name) ?? '', arguments: toArgumentsText(block.input) });
  }
  return [...steps.flat(), { kind: 'message', role, text: texts.join(role === 'assistant' ? '' : '\n'), toolCalls }];
}

function getBlockText(block: unknown): string | null {
  if (typeof block === 'string') return block;
  const { type, text, refusal } = asObject(block);
  if (type === 'text' || type === 'input_text' || type === 'output_text') return asString(text);
  return type === 'refusal' ? asString(refusal) : null;
}

function textSteps(kind: 'tool_result', type: string, content: unknown): Step[] {
  if (content === undefined || content === null) return [];
  const blocks = newestBlocks(content);
  const texts = blocks.map(getBlockText);
  const text = stripRecalled(texts.filter((text) => text !== null).join('\n'));
  const others = blocks.filter((_, index) => texts[index] === null).flatMap(otherSteps);
  return [...(text === '' ? [] : [extraStep(() => [textExtra(kind, type, text)])]), ...others];
}

/**
 * Returns a separate step for each block of the system prompt, because often only one of the blocks changes between
 * calls.
 */
function systemSteps(type: string, content: unknown): Step[] {
  if (content === undefined || content === null) return [];
  return newestBlocks(content).flatMap((block) => {
    const text = getBlockText(block);
    if (text === null) return otherSteps(block);
    const written = stripRecalled(text);
    return written === '' ? [] : [extraStep(() => [textExtra('system', type, written)], true)];
  });
}

/** Handles both the thinking blocks of the messages dialect and the reasoning items of responses. */
function thinkingSteps(block: JsonObject): Step[] {
  const parts = [...asArray(block.summary), ...asArray(block.content)].map((part) => asString(asObject(part).text) ?? '');
  const text = asString(block.thinking) ?? parts.join('\n');
  const opaque = asString(block.encrypted_content) ?? asString(block.data);
  const type = asString(block.type) ?? 'thinking';
  return [
    ...(text === '' ? [] : [extraStep(() => [textExtra('thinking', type, text)])]),
    ...(opaque === null ? [] : [extraStep(() => [opaqueExtra(type, opaque)])]),
  ];
}

function otherSteps(block: unknown): Step[] {
  return block === undefined || block === null ? [] : [extraStep(() => toExtras(block))];
}

/**
 * On chat, the arguments are text already and stay unchanged. On messages they're a JSON value, which is serialized
 * without changing the order of its keys.
 */
function toArgumentsText(value: unknown): string {
  return typeof value === 'string' ? value : toJsonText(value ?? {});
}

function extraStep(read: () => readonly PromptExtra[], isSystem = false): Step {
  return { kind: 'extra', isSystem, read };
}
