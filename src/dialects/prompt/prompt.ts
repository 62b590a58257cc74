/**
 * Reads the messages of a request body into the normal form (decisions 9): what the user and the assistant said and which tools the
 * assistant called. All else that belongs to the prompt becomes an extra that knows where it stood: system prompts, tool results,
 * thinking, and binary content as type, size and SHA-256.
 *
 * Total: a body is the caller's, so whatever is malformed is skipped or kept as an extra; nothing here throws. Off the hot path, but on its
 * event loop: time grows with the size of the body alone, and what is kept of it is bounded (`prompt-limits.ts`).
 *
 * The same rules hold for answers, so that an answer and its repetition in the next request are the same message: text parts of the
 * assistant are joined without anything between (vendors cut them for citations and tools), parts of the user by line feeds.
 */
import type { AssistantTurn } from '../../core/call.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { foldDataUrls } from '../json/data-url.ts';
import { opaqueExtra, type PromptExtra, textExtra, toExtras, toJsonText } from './prompt-extras.ts';
import { collectNewest, maxToolCalls, newestBlocks, newestMessages, truncateText } from './prompt-limits.ts';
import { stripRecalled } from './recalled-block.ts';

/** A message as it is chained, stored and learned from. */
export interface NormalMessage {
  readonly role: 'user' | 'assistant';
  readonly text: string;
  readonly toolCalls: AssistantTurn['toolCalls'];
}

/** What stood in the prompt beside the messages; `position` messages of the normal form stand before it or hold it. Stored as JSON. */
export type PositionedExtra = PromptExtra & { readonly position: number };

export interface Prompt {
  readonly messages: readonly NormalMessage[];
  readonly extras: readonly PositionedExtra[];
  /** The last message is the beginning of the answer (messages dialect): the answer goes on in it. */
  readonly isPrefilled: boolean;
}

export type PromptRoute = 'chat' | 'messages' | 'responses';

/** One step of a prompt. A `pause` stands between what the assistant said in one answer and in the next. What was found is read only when kept. */
type Step =
  | { readonly kind: 'said'; readonly role: NormalMessage['role']; readonly text: string; readonly toolCalls: AssistantTurn['toolCalls'] }
  | { readonly kind: 'found'; readonly isSystem: boolean; readonly read: () => readonly PromptExtra[] }
  | { readonly kind: 'pause' };

/** Reads the parsed JSON of a request to `route`. */
export function parsePrompt(route: PromptRoute, body: unknown): Prompt {
  const request = asObject(body);
  switch (route) {
    case 'chat':
      return collect(newestMessages(request.messages).flatMap(readChatMessage), false);
    case 'messages': {
      const messages = newestMessages(request.messages);
      const steps = [...systemSteps('system', request.system), ...messages.flatMap(readMessagesMessage)];
      return collect(steps, asObject(messages.at(-1)).role === 'assistant');
    }
    case 'responses': {
      const items = typeof request.input === 'string' ? [{ role: 'user', content: request.input }] : newestMessages(request.input);
      return collect(joinItems([...systemSteps('instructions', request.instructions), ...items.flatMap(readItem)]), false);
    }
    default:
      return route satisfies never;
  }
}

/** The message in normal form: storable text, tool calls that have a name; null when nothing of it is left. */
export function normalizeMessage(role: NormalMessage['role'], turn: AssistantTurn): NormalMessage | null {
  const text = toPostgresText(truncateText(foldDataUrls(stripRecalled(turn.text))));
  const toolCalls = turn.toolCalls
    .slice(0, maxToolCalls)
    .map((call) => ({ name: toPostgresText(call.name), arguments: toPostgresText(truncateText(stripRecalled(call.arguments))) }))
    .filter((call) => call.name !== '');
  return text.trim() === '' && toolCalls.length === 0 ? null : { role, text, toolCalls };
}

function collect(steps: readonly Step[], lastIsAssistant: boolean): Prompt {
  const messages: NormalMessage[] = [];
  const places: { readonly position: number; readonly isSystem: boolean; readonly read: () => readonly PromptExtra[] }[] = [];
  for (const step of steps) {
    if (step.kind === 'found') places.push({ position: messages.length, isSystem: step.isSystem, read: step.read });
    if (step.kind !== 'said') continue;
    const message = normalizeMessage(step.role, step);
    if (message) messages.push(message);
  }
  const last = messages.at(-1);
  const extras = collectNewest(places, ({ position, read }) => read().map((finding) => ({ position, ...finding })));
  return { messages, extras, isPrefilled: lastIsAssistant && last?.role === 'assistant' && last.toolCalls.length === 0 };
}

function readChatMessage(message: unknown): Step[] {
  if (!isObject(message)) return [];
  const { role, content } = message;
  switch (role) {
    case 'system':
    case 'developer':
      return systemSteps(role, content);
    case 'user':
      return readContent('user', content);
    case 'assistant':
      return readChatAssistant(message);
    case 'tool':
    case 'function':
      return toolResultSteps(role, content);
    default:
      return otherSteps(message);
  }
}

function readChatAssistant(message: JsonObject): Step[] {
  const thinking = asString(message.reasoning_content) ?? asString(message.reasoning);
  const calls = [...asArray(message.tool_calls), ...(isObject(message.function_call) ? [{ function: message.function_call }] : [])];
  const functions = calls.map((call) => asObject(call).function);
  const kept = functions.filter(isObject).slice(0, maxToolCalls);
  const toolCalls = kept.map((fn) => ({ name: asString(fn.name) ?? '', arguments: toArgumentsText(fn.arguments) }));
  // Other kinds of calls (`custom`) are no function calls of the answer either; they stay visible as extras.
  const others = calls.filter((call) => !isObject(asObject(call).function)).flatMap(otherSteps);
  const said = readContent('assistant', message.content ?? message.refusal, toolCalls);
  return [...(thinking ? [found(() => [textExtra('thinking', 'reasoning', thinking)])] : []), ...others, ...said];
}

function readMessagesMessage(message: unknown): Step[] {
  if (!isObject(message)) return [];
  const { role, content } = message;
  if (role === 'user' || role === 'assistant') return readContent(role, content);
  return role === 'system' ? systemSteps('system', content) : otherSteps(message);
}

function readItem(item: unknown): Step[] {
  if (!isObject(item)) return [];
  const { type, role, content } = item;
  switch (type) {
    case undefined:
    case null:
    case 'message':
      if (role === 'user') return [{ kind: 'pause' }, ...readContent('user', content)];
      if (role === 'assistant') return readContent('assistant', content);
      return role === 'system' || role === 'developer' ? systemSteps(role, content) : otherSteps(item);
    case 'function_call':
      return [said('assistant', '', [{ name: asString(item.name) ?? '', arguments: toArgumentsText(item.arguments) }])];
    case 'function_call_output':
      return [{ kind: 'pause' }, ...toolResultSteps(type, item.output)];
    case 'reasoning':
      return thinkingSteps(item);
    default:
      return otherSteps(item);
  }
}

/** Items of one answer (its text and each of its function calls are items of their own) become one message again. */
function joinItems(steps: readonly Step[]): Step[] {
  const joined: Step[] = [];
  // Grows in place: a copy for each item would take time with the square of their number.
  let open: { kind: 'said'; role: 'assistant'; text: string; toolCalls: AssistantTurn['toolCalls'][number][] } | null = null;
  for (const step of steps) {
    if (step.kind === 'found') joined.push(step);
    else if (step.kind === 'pause') open = null;
    else if (step.role === 'user') {
      open = null;
      joined.push(step);
    } else {
      if (!open) {
        open = { kind: 'said', role: 'assistant', text: '', toolCalls: [] };
        joined.push(open);
      }
      open.text += step.text;
      for (const call of step.toolCalls) open.toolCalls.push(call);
    }
  }
  return joined;
}

/** Text and blocks of one message of the user or the assistant. */
function readContent(role: NormalMessage['role'], content: unknown, calls: AssistantTurn['toolCalls'] = []): Step[] {
  const blocks = newestBlocks(content);
  const texts: string[] = [];
  const toolCalls = [...calls];
  const steps: Step[][] = [];
  for (const block of blocks) {
    const text = getBlockText(block);
    if (text !== null) texts.push(text);
    else if (!isObject(block)) continue;
    else if (block.type === 'tool_result') steps.push(toolResultSteps(block.type, block.content));
    else if (block.type === 'thinking' || block.type === 'redacted_thinking') steps.push(thinkingSteps(block));
    else if (block.type !== 'tool_use') steps.push(otherSteps(block));
    else if (toolCalls.length < maxToolCalls) toolCalls.push({ name: asString(block.name) ?? '', arguments: toArgumentsText(block.input) });
  }
  return [...steps.flat(), said(role, texts.join(role === 'assistant' ? '' : '\n'), toolCalls)];
}

function getBlockText(block: unknown): string | null {
  if (typeof block === 'string') return block;
  const { type, text, refusal } = asObject(block);
  if (type === 'text' || type === 'input_text' || type === 'output_text') return asString(text);
  return type === 'refusal' ? asString(refusal) : null;
}

function systemSteps(type: string, content: unknown): Step[] {
  return textAndBlocks('system', type, content);
}

function toolResultSteps(type: string, content: unknown): Step[] {
  return textAndBlocks('tool_result', type, content);
}

/** One extra with the text, then one for each block that is no text. */
function textAndBlocks(kind: 'system' | 'tool_result', type: string, content: unknown): Step[] {
  if (content === undefined || content === null) return [];
  const blocks = newestBlocks(content);
  const texts = blocks.map(getBlockText);
  const text = stripRecalled(texts.filter((piece) => piece !== null).join('\n'));
  const others = blocks.filter((_, index) => texts[index] === null).flatMap(otherSteps);
  return [...(text === '' ? [] : [found(() => [textExtra(kind, type, text)], kind === 'system')]), ...others];
}

/** Thinking blocks of messages and reasoning items of responses. */
function thinkingSteps(block: JsonObject): Step[] {
  const pieces = [...asArray(block.summary), ...asArray(block.content)].map((piece) => asString(asObject(piece).text) ?? '');
  const text = asString(block.thinking) ?? pieces.join('\n');
  const sealed = asString(block.encrypted_content) ?? asString(block.data);
  const type = asString(block.type) ?? 'thinking';
  return [
    ...(text === '' ? [] : [found(() => [textExtra('thinking', type, text)])]),
    ...(sealed === null ? [] : [found(() => [opaqueExtra(type, sealed)])]),
  ];
}

function otherSteps(block: unknown): Step[] {
  return block === undefined || block === null ? [] : [found(() => toExtras(block))];
}

/** Chat sends arguments as text, which is kept as it is; messages as a value, whose JSON keeps the order of keys. */
function toArgumentsText(value: unknown): string {
  return typeof value === 'string' ? value : toJsonText(value ?? {});
}

function said(role: NormalMessage['role'], text: string, toolCalls: AssistantTurn['toolCalls']): Step {
  return { kind: 'said', role, text, toolCalls };
}

function found(read: () => readonly PromptExtra[], isSystem = false): Step {
  return { kind: 'found', isSystem, read };
}
