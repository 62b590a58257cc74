/** Composes a reply from a conversation, both independent of the dialect. */

import { asObject, asString, isObject, type JsonObject } from './json.ts';
import { respondToMemoryPrompt } from './memory-worker.ts';
import type { Script } from './scripts.ts';
import { bigText, countTokens, longText } from './tokens.ts';

export interface Tool {
  readonly name: string;
  readonly schema: JsonObject;
}

export interface Conversation {
  readonly userText: string;
  /** Images, sounds and files in the last user message. */
  readonly attachments: number;
  /** Result of the tool call that ends the conversation; null when a user message ends it. */
  readonly toolResult: string | null;
  /** Characters of all messages, for counting tokens. */
  readonly characters: number;
  readonly tools: readonly Tool[];
  /** `named`: call this tool, independent of the user's text. */
  readonly toolChoice: 'auto' | 'none' | 'required' | { readonly named: string };
  /** JSON schema of the response; null for free text. */
  readonly schema: JsonObject | null;
  readonly maxTokens: number | null;
}

export interface ToolCall {
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

export interface Reply {
  /** Empty when the model does not think. */
  readonly reasoning: string;
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly end: 'stop' | 'length' | 'tools' | 'filtered';
  /** Excludes tokens read from or written to the prompt cache. */
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Returns the reply of the script's model. `echo-body` repeats `body`. */
export function composeReply(conversation: Conversation, script: Script, body: Buffer): Reply {
  const toolCalls = composeToolCalls(conversation, script);
  const whole = toolCalls.length > 0 ? '' : composeText(conversation, script, body);
  // Only the echo obeys the caller's limit: a scripted response is exactly what its test needs.
  const bound = script.content.kind === 'echo' && conversation.schema === null ? (conversation.maxTokens ?? Infinity) * 4 : Infinity;
  const text = script.filtered ? '' : whole.slice(0, bound);
  const characters = toolCalls.reduce((sum, call) => sum + call.name.length + call.arguments.length, text.length);
  return {
    reasoning: script.thinks ? `The user said: ${conversation.userText}` : '',
    text,
    toolCalls: script.filtered ? [] : toolCalls,
    end: script.filtered ? 'filtered' : toolCalls.length > 0 ? 'tools' : text.length < whole.length ? 'length' : 'stop',
    inputTokens: countTokens(conversation.characters),
    outputTokens: countTokens(characters),
  };
}

/** Returns the input tokens including cached ones, for dialects that report the total. */
export function wholeInputTokens(reply: Reply, script: Script): number {
  return reply.inputTokens + script.cachedTokens;
}

function composeText(conversation: Conversation, { content }: Script, body: Buffer): string {
  switch (content.kind) {
    case 'body':
      return body.toString('utf8');
    case 'text':
      return content.text;
    case 'terms':
      return longText(content.count);
    case 'kibibytes':
      return bigText(content.count * 1_024);
    case 'echo':
    case 'tool':
    case 'tools-parallel':
    case 'tools-interleaved':
      return echo(conversation);
    default:
      return content satisfies never;
  }
}

function echo({ userText, attachments, toolResult, schema }: Conversation): string {
  if (schema !== null) return JSON.stringify(fitSchema(schema, userText));
  if (toolResult !== null) return `The tool said: ${toolResult}`;
  const also = attachments === 0 ? '' : ` (and sent ${attachments} ${attachments === 1 ? 'attachment' : 'attachments'})`;
  return userText === '' && also === '' ? 'Hello! You said nothing yet.' : `You said: ${userText}${also}`;
}

function composeToolCalls(conversation: Conversation, { content }: Script): readonly ToolCall[] {
  if (conversation.toolResult !== null) return [];
  const call = (tool: Tool): ToolCall => ({
    name: tool.name,
    arguments: JSON.stringify(fitSchema(tool.schema, conversation.userText)),
  });
  const first = conversation.tools[0] ?? lookupTool;
  switch (content.kind) {
    case 'tool':
      return [call(first)];
    case 'tools-parallel':
    case 'tools-interleaved':
      return [call(first), call(conversation.tools[1] ?? first)];
    case 'echo': {
      const tool = chooseTool(conversation);
      return tool === undefined ? [] : [call(tool)];
    }
    default:
      return [];
  }
}

/** Returns the tool that the user's text names; the first tool when the text asks for "a tool" or the caller requires one. */
function chooseTool({ tools, toolChoice, userText }: Conversation): Tool | undefined {
  if (toolChoice === 'none') return undefined;
  if (typeof toolChoice === 'object') return tools.find((tool) => tool.name === toolChoice.named);
  const text = userText.toLowerCase();
  const named = tools.find(({ name }) => text.includes(name.toLowerCase()) || text.includes(name.toLowerCase().replaceAll('_', ' ')));
  return named ?? (toolChoice === 'required' || /\b(use|call)\b.*\btool\b/.test(text) ? tools[0] : undefined);
}

const lookupTool: Tool = { name: 'lookup', schema: { type: 'object', properties: { query: { type: 'string' } } } };
const maxSchemaDepth = 8;

function fitSchema(schema: JsonObject, text: string): unknown {
  return respondToMemoryPrompt(schema, text) ?? fillSchema(schema, text, 0);
}

/** Returns the simplest value that fits a JSON schema: strings are the user's text, arrays are empty, numbers are 1. */
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

/** Returns the texts of messages in order, with the last user message; `characters` counts all texts. */
export function readTexts(messages: readonly JsonObject[], textTypes: readonly string[]) {
  const contents = messages.map(({ content }) => readContent(content, textTypes));
  const last = contents[messages.findLastIndex(({ role }) => role === 'user')];
  return {
    userText: last?.text ?? '',
    attachments: last?.attachments ?? 0,
    characters: contents.reduce((sum, { text }) => sum + text.length, 0),
  };
}

/** Returns a tool choice in OpenAI's terms; `nameOf` reads the name of a chosen tool. */
export function parseToolChoice(choice: unknown, nameOf: (choice: JsonObject) => unknown): Conversation['toolChoice'] {
  if (isObject(choice)) return { named: asString(nameOf(choice)) };
  return choice === 'required' || choice === 'none' ? choice : 'auto';
}

/** Returns the text of a content (a string, or the parts of the given types) and the number of other parts. */
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
