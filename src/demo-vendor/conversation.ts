/** Represents a conversation independently of the vendor's API that it came through, and makes up a reply to it. */

import { asObject, asString, isObject, type JsonObject } from './json.ts';
import { respondToMemoryPrompt } from './memory-worker.ts';
import { repeatsBody } from './model-terms.ts';
import type { DemoRequest } from './response.ts';
import { countTokens } from './tokens.ts';

export interface Tool {
  readonly name: string;
  readonly schema: JsonObject;
}

export interface Conversation {
  readonly userText: string;
  /** How many images, audio clips and files the last user message has. */
  readonly attachments: number;
  /** Set if the conversation ends with the result of a tool. Null if it ends with a user message. */
  readonly toolResult: string | null;
  /** The total number of characters in all messages. We derive the token counts from it. */
  readonly characters: number;
  readonly tools: readonly Tool[];
  /** If this names a tool, we call it no matter what the user says. */
  readonly toolChoice: 'auto' | 'none' | 'required' | { readonly named: string };
  /** Null if the response is free text. */
  readonly schema: JsonObject | null;
  readonly maxTokens: number | null;
}

interface ToolCall {
  readonly name: string;
  readonly arguments: string;
}

export interface Reply {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly end: 'stop' | 'length' | 'tools';
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export type ComposeReply = (conversation: Conversation, request: DemoRequest) => Reply;

/** Calls a tool if the user's text names one. Otherwise echoes the text, truncated to the caller's output limit. */
export function composeReply(conversation: Conversation, request: DemoRequest): Reply {
  const tool = conversation.toolResult === null ? chooseTool(conversation) : undefined;
  if (tool !== undefined) return toReply(conversation, { text: '', toolCalls: [callTool(tool, conversation)], end: 'tools' });
  if (repeatsBody(request)) return toReply(conversation, { text: request.body.toString('utf8'), toolCalls: [], end: 'stop' });
  const whole = echo(conversation);
  const text = conversation.schema === null ? whole.slice(0, (conversation.maxTokens ?? Infinity) * 4) : whole;
  return toReply(conversation, { text, toolCalls: [], end: text.length < whole.length ? 'length' : 'stop' });
}

export function toReply({ characters }: Conversation, reply: Pick<Reply, 'text' | 'toolCalls' | 'end'>): Reply {
  const output = reply.toolCalls.reduce((sum, call) => sum + call.name.length + call.arguments.length, reply.text.length);
  return { ...reply, inputTokens: countTokens(characters), outputTokens: countTokens(output) };
}

export function echo({ userText, attachments, toolResult, schema }: Conversation): string {
  if (schema !== null) return JSON.stringify(fitSchema(schema, userText));
  if (toolResult !== null) return `The tool said: ${toolResult}`;
  const also = attachments === 0 ? '' : ` (and sent ${attachments} ${attachments === 1 ? 'attachment' : 'attachments'})`;
  return userText === '' && also === '' ? 'Hello! You have not said anything yet.' : `You said: ${userText}${also}`;
}

export function callTool(tool: Tool, { userText }: Conversation): ToolCall {
  return { name: tool.name, arguments: JSON.stringify(fitSchema(tool.schema, userText)) };
}

/**
 * Returns the tool that the user's text names. If it just asks for "a tool", or the caller requires a tool call, that's
 * the first tool.
 */
export function chooseTool({ tools, toolChoice, userText }: Conversation): Tool | undefined {
  if (toolChoice === 'none') return undefined;
  if (typeof toolChoice === 'object') return tools.find((tool) => tool.name === toolChoice.named);
  const text = userText.toLowerCase();
  const named = tools.find(({ name }) => text.includes(name.toLowerCase()) || text.includes(name.toLowerCase().replaceAll('_', ' ')));
  return named ?? (toolChoice === 'required' || /\b(use|call)\b.*\btool\b/.test(text) ? tools[0] : undefined);
}

const maxSchemaDepth = 8;

function fitSchema(schema: JsonObject, text: string): unknown {
  return respondToMemoryPrompt(schema, text) ?? fillSchema(schema, text, 0);
}

/**
 * Returns a simple value that fits a JSON schema. Strings contain the user's text, arrays are empty, and numbers are 1.
 */
function fillSchema(schema: JsonObject, text: string, depth: number): unknown {
  if ('const' in schema) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === 'string') return text;
  if (type === 'integer' || type === 'number') return 1;
  if (type === 'boolean') return true;
  if (type === 'array') return [];
  if (type === 'null' || depth >= maxSchemaDepth) return null;
  const members = Object.entries(asObject(schema.properties));
  return Object.fromEntries(members.map(([name, member]) => [name, fillSchema(asObject(member), text, depth + 1)]));
}

/**
 * Returns the text of the last user message and the number of its attachments. `characters` is the length of the text
 * in all messages.
 */
export function readTexts(messages: readonly JsonObject[], textTypes: readonly string[]) {
  const contents = messages.map(({ content }) => readContent(content, textTypes));
  const last = contents[messages.findLastIndex(({ role }) => role === 'user')];
  return {
    userText: last?.text ?? '',
    attachments: last?.attachments ?? 0,
    characters: contents.reduce((sum, { text }) => sum + text.length, 0),
  };
}

/** Parses a tool choice that has the same values as OpenAI's. `nameOf` finds out which tool the choice names. */
export function parseToolChoice(choice: unknown, nameOf: (choice: JsonObject) => unknown): Conversation['toolChoice'] {
  if (isObject(choice)) return { named: asString(nameOf(choice)) };
  return choice === 'required' || choice === 'none' ? choice : 'auto';
}

/**
 * Returns the text of a message, and how many of its parts aren't text. The content is either a string or a list of
 * parts. Parts are text if their type is in `textTypes`.
 */
export function readContent(content: unknown, textTypes: readonly string[]): { readonly text: string; readonly attachments: number } {
  if (!Array.isArray(content)) return { text: asString(content), attachments: 0 };
  const texts: string[] = [];
  let attachments = 0;
  for (const part of content) {
    if (!isObject(part)) continue;
    if (textTypes.includes(asString(part.type))) texts.push(asString(part.text));
    else attachments += 1;
  }
  return { text: texts.join('\n'), attachments };
}
