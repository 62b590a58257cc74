/**
 * All text of a request or an answer that a content rule looks at, whoever said it: messages, system prompts, tool calls and results, what
 * is to be embedded, judged or ranked. Read by where text can stand, not block type by block type, so that a block nobody has heard of yet
 * passes no rule unread. What is no text stays out: binary content, sealed thinking, the names of things.
 */
import type { TextRoute } from '../../core/call.ts';
import { asObject, isObject } from '../../core/json/narrow.ts';

/** Members of a body that hold text, on any route. */
const requestMembers = ['messages', 'system', 'instructions', 'input', 'prompt', 'query', 'documents'];
const responseMembers: Readonly<Record<TextRoute, readonly string[]>> = {
  chat: ['choices'],
  messages: ['content'],
  responses: ['output'],
  // Vectors, scores, and the caller's own documents: nothing that a model said.
  embeddings: [],
  moderations: [],
  rerank: [],
};

export function extractRequestTexts(body: unknown): string[] {
  const request = asObject(body);
  return extractTexts(requestMembers.map((name) => request[name]));
}

export function extractResponseTexts(route: TextRoute, answer: unknown): string[] {
  const members = asObject(answer);
  return extractTexts(responseMembers[route].map((name) => members[name]));
}

/** What says something of a block, in words of the dialect or sealed, and is nobody's text. */
const skippedMembers: ReadonlySet<string> = new Set([
  ...[
    'type',
    'role',
    'id',
    'object',
    'status',
    'model',
    'finish_reason',
    'stop_reason',
    'media_type',
    'tool_call_id',
    'tool_use_id',
    'call_id',
  ],
  ...['signature', 'thought_signature', 'encrypted_content', 'logprobs'],
]);

/** Without recursion: a body may be nested deeper than the stack. */
function extractTexts(values: readonly unknown[]): string[] {
  const texts: string[] = [];
  // What a tool was given may have members of any name, so all of it is read.
  const waiting = values.map((value) => ({ value, isToolInput: false })).reverse();
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { value, isToolInput } = next;
    if (typeof value === 'string') {
      if (value !== '' && !isDataUrl(value)) texts.push(value);
    } else if (Array.isArray(value)) {
      const whole = joinBlocks(value);
      if (whole !== null) texts.push(whole);
      for (let index = value.length - 1; index >= 0; index -= 1) waiting.push({ value: value[index], isToolInput });
    } else if (isObject(value)) {
      for (const [name, member] of Object.entries(value).reverse()) {
        if (isToolInput || !(skippedMembers.has(name) || isBinary(name, value)))
          waiting.push({ value: member, isToolInput: isToolInput || (name === 'input' && 'name' in value) });
      }
    }
  }
  return texts;
}

/** What a model reads as one text: nothing is hidden by cutting it in two. Null for a single block, and for what is no list of blocks. */
function joinBlocks(values: readonly unknown[]): string | null {
  const pieces = values.flatMap((value) => (isObject(value) && typeof value.text === 'string' ? [value.text] : []));
  return pieces.length < 2 ? null : pieces.join('');
}

/** Base64 of an image, a sound or a file; the `data` of a document may be text. */
function isBinary(name: string, owner: Readonly<Record<string, unknown>>): boolean {
  if (name === 'file_data' || name === 'b64_json') return true;
  return name === 'data' && (owner.type === 'base64' || owner.type === 'redacted_thinking' || typeof owner.format === 'string');
}

/** All of it: words behind such a beginning are words. */
function isDataUrl(text: string): boolean {
  const [head] = /^data:[\w.+-]{1,64}\/[\w.+-]{1,64};base64,/i.exec(text) ?? [];
  return head !== undefined && !/[^A-Za-z0-9+/=_-]/.test(text.slice(head.length));
}
