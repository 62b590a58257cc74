/**
 * Extracts all text of a request or response that content rules evaluate: messages, system prompts, tool calls and results, input of
 * embeddings, moderations and rerank. Selects by member, not by block type, so that a block of an unknown type is evaluated too. Excluded:
 * binary content, encrypted thinking, identifiers.
 */
import type { TextRoute } from '../../core/call.ts';
import { asObject, isObject } from '../../core/json/narrow.ts';
import { unsealReasoning } from '../json/sealed-reasoning.ts';

/** Members of a body that hold text, on any route. */
const requestMembers = ['messages', 'system', 'instructions', 'input', 'prompt', 'query', 'documents'];
const responseMembers: Readonly<Record<TextRoute, readonly string[]>> = {
  chat: ['choices'],
  messages: ['content'],
  responses: ['output'],
  // Vectors, scores and the caller's own documents: no generated text.
  embeddings: [],
  moderations: [],
  rerank: [],
};

export function extractRequestTexts(body: unknown): string[] {
  const request = asObject(body);
  return extractTexts(requestMembers.map((name) => request[name]));
}

export function extractResponseTexts(route: TextRoute, response: unknown): string[] {
  const members = asObject(response);
  return extractTexts(responseMembers[route].map((name) => members[name]));
}

/** Members that describe a block or are encrypted, and hold no text. */
const skippedMembers: ReadonlySet<string> = new Set([
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
  'signature',
  'thought_signature',
  'encrypted_content',
  'logprobs',
]);

/** Without recursion: a body may be nested deeper than the stack. */
function extractTexts(values: readonly unknown[]): string[] {
  const texts: string[] = [];
  // Tool input may have members of any name, so all of them are evaluated.
  const stack = values.map((value) => ({ value, isToolInput: false })).reverse();
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { value, isToolInput } = next;
    if (typeof value === 'string') {
      if (value !== '' && !isDataUrl(value)) texts.push(value);
    } else if (Array.isArray(value)) {
      const joined = joinBlocks(value);
      if (joined !== null) texts.push(joined);
      for (let index = value.length - 1; index >= 0; index -= 1) stack.push({ value: value[index], isToolInput });
    } else if (isObject(value)) {
      for (const [name, member] of Object.entries(value).reverse()) {
        // What the gateway itself encoded is translated to plain text for some vendors.
        const unsealed = name === 'encrypted_content' ? unsealReasoning(member) : null;
        if (unsealed !== null) stack.push({ value: unsealed, isToolInput });
        else if (isToolInput || !(skippedMembers.has(name) || isBinary(name, value)))
          stack.push({ value: member, isToolInput: isToolInput || (name === 'input' && 'name' in value) });
      }
    }
  }
  return texts;
}

/** The concatenated text of blocks, which a model reads as one text: splitting cannot hide a match. Null for fewer than two text blocks. */
function joinBlocks(values: readonly unknown[]): string | null {
  const texts = values.flatMap((value) => (isObject(value) && typeof value.text === 'string' ? [value.text] : []));
  return texts.length < 2 ? null : texts.join('');
}

const encodedTypes: ReadonlySet<unknown> = new Set(['base64', 'redacted_thinking', 'reasoning.encrypted']);

/** Whether the member is base64 of an image, audio or file; the `data` of a document may be text. */
function isBinary(name: string, owner: Readonly<Record<string, unknown>>): boolean {
  if (name === 'file_data' || name === 'b64_json') return true;
  return name === 'data' && (encodedTypes.has(owner.type) || typeof owner.format === 'string');
}

/** Whether the whole text is a data URL: text after one is still text. */
function isDataUrl(text: string): boolean {
  const [head] = /^data:[\w.+-]{1,64}\/[\w.+-]{1,64};base64,/i.exec(text) ?? [];
  return head !== undefined && !/[^A-Za-z0-9+/=_-]/.test(text.slice(head.length));
}
