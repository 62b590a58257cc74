/**
 * Extracts all text of a request or response that content rules evaluate. A request is evaluated as a whole, because vendors receive it as a
 * whole: messages, tools, schemas, metadata, and members that the gateway does not know. Excluded: binary content, encrypted thinking,
 * identifiers, and the names by which the API tells blocks apart.
 */
import type { TextRoute } from '../../core/call.ts';
import { asObject, isObject } from '../../core/json/narrow.ts';
import { unsealReasoning } from '../json/sealed-reasoning.ts';

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
  return extractTexts([body]);
}

export function extractResponseTexts(route: TextRoute, response: unknown): string[] {
  const members = asObject(response);
  return extractTexts(responseMembers[route].map((name) => members[name]));
}

/** Members whose strings are names of the API, identifiers or encrypted. Objects under these names are properties of a caller's schema. */
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
  'previous_response_id',
  'signature',
  'thought_signature',
  'encrypted_content',
]);

/** Member names that are not evaluated: those of the API and of ordinary schemas. */
const plainName = /^[a-z_$][\w$-]{0,63}$/i;

interface Visit {
  readonly value: unknown;
  /** In the input of a tool, where a member of any name is text. */
  readonly isToolInput: boolean;
  /** Strings at this place are not text. */
  readonly isName: boolean;
}

/** Without recursion: a body may be nested deeper than the stack. */
function extractTexts(values: readonly unknown[]): string[] {
  const texts: string[] = [];
  const stack: Visit[] = values.map((value) => ({ value, isToolInput: false, isName: false })).reverse();
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { value, isToolInput, isName } = next;
    if (typeof value === 'string') {
      if (!isName && value !== '' && !isDataUrl(value)) texts.push(value);
    } else if (typeof value === 'number') {
      // Such as that of a card: other dialects write the input of a tool as text.
      if (isToolInput) texts.push(String(value));
    } else if (Array.isArray(value)) {
      const joined = joinBlocks(value);
      if (joined !== null) texts.push(joined);
      for (let index = value.length - 1; index >= 0; index -= 1) stack.push({ value: value[index], isToolInput, isName });
    } else if (isObject(value)) {
      for (const [name, member] of Object.entries(value).reverse()) {
        if (!plainName.test(name)) texts.push(name);
        // What the gateway itself encoded is translated to plain text for some vendors.
        const unsealed = name === 'encrypted_content' ? unsealReasoning(member) : null;
        if (unsealed !== null) stack.push({ value: unsealed, isToolInput, isName: false });
        else if (isToolInput || !(name === 'logprobs' || isBinary(name, value)))
          stack.push({
            value: member,
            isToolInput: isToolInput || (name === 'input' && 'name' in value),
            isName: !isToolInput && skippedMembers.has(name),
          });
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
