/**
 * Extracts all text of a request or response that content rules evaluate. Vendors receive the whole request, so we
 * evaluate all of it: messages, tools, schemas with their property names, metadata, and members that the gateway
 * doesn't know.
 *
 * We leave out identifiers, the API's own type names, base64 and encrypted thinking, but only where the API defines
 * them and only if the value looks like one. Otherwise a caller could hide any text there.
 */
import type { TextRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { asObject, isObject, type JsonObject, parseJson } from '../../core/json/narrow.ts';
import { factsOf } from '../json/body-facts.ts';
import { scanTokens } from '../json/scan-tokens.ts';
import { unsealReasoning } from '../json/sealed-reasoning.ts';

const responseMembers: Readonly<Record<TextRoute, readonly string[]>> = {
  chat: ['choices'],
  messages: ['content'],
  responses: ['output'],
  // These routes return vectors, scores and the caller's own documents, but no generated text.
  embeddings: [],
  moderations: [],
  rerank: [],
};

/**
 * Returns the strings of a body whose syntax has already been checked. Throws `bad_json` if any object in the body
 * repeats a key. Parsers differ in which of the two members they read, so the vendor might read the one that we
 * didn't evaluate.
 */
export function readRequestTexts(body: Buffer): readonly string[] {
  const known = factsOf(body)?.texts;
  if (known) return known;
  const { memberCount, longNumbers } = scanTokens(body);
  const read = extractTexts([parseJson(body.toString('utf8'))], { isRequest: true });
  if (read.memberCount !== memberCount)
    throw gatewayError('bad_json', { message: 'duplicate key: the same key appears twice in an object of the body' });
  return [...read.texts, ...longNumbers];
}

export function extractResponseTexts(route: TextRoute, response: unknown): string[] {
  const members = asObject(response);
  const values = responseMembers[route].map((name) => members[name]);
  return extractTexts(values, { isRequest: false }).texts;
}

/**
 * Members whose objects and arrays are defined by the API. Inside other members, such as arguments, schemas and
 * metadata, the caller can choose any names.
 */
const apiMembers: ReadonlySet<string> = new Set(
  [
    ['messages', 'message', 'content', 'system', 'choices', 'delta', 'input', 'output', 'summary', 'source', 'documents'],
    ['tools', 'tool_choice', 'tool_calls', 'functions', 'function', 'function_call', 'custom', 'action'],
    ['image_url', 'input_audio', 'audio', 'video_url', 'file', 'annotations', 'citations', 'extra_content', 'google', 'caller'],
    [
      'cache_control',
      'thinking',
      'thinking_blocks',
      'reasoning',
      'reasoning_details',
      'response_format',
      'text',
      'format',
      'stream_options',
      'prediction',
    ],
  ].flat(),
);

/** Matches the form of the API's own member names, which we don't evaluate. Any other name is checked as text. */
const plainName = /^[a-z_$][\w$-]{0,63}$/i;
/** The standard names in tool schemas and output schemas, which we don't evaluate either. */
const schemaWords: ReadonlySet<string> = new Set(
  [
    ['type', 'properties', 'required', 'description', 'items', 'enum', 'const', 'title', 'default', 'examples', 'format', 'pattern'],
    ['additionalProperties', 'anyOf', 'allOf', 'oneOf', 'not', '$ref', '$defs', 'definitions', '$schema', 'strict', 'schema', 'name'],
    ['minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems', 'nullable', 'propertyNames', 'patternProperties'],
  ].flat(),
);
const schemaTypes: ReadonlySet<unknown> = new Set(['object', 'string', 'number', 'integer', 'boolean', 'array', 'null']);

const idMembers: ReadonlySet<string> = new Set(['id', 'tool_call_id', 'tool_use_id', 'call_id', 'previous_response_id']);
/**
 * Matches a vendor's id with its prefix, a UUID, or a short id. Digits alone don't match, because they may be
 * somebody's number.
 */
const identifier =
  /^(?:[a-z]{2,9}_[\w-]{1,128}|(?:chatcmpl|call|gen|file|msg|tool)-[\w-]{1,128}|functions\.[\w-]{1,64}:\d{1,4}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=\d*[A-Za-z])[A-Za-z0-9]{1,12})$/;
/** Finds the number of a card or telephone behind a prefix. In UUIDs it could only find one by chance. */
const longNumber = /^(?![0-9a-f]{8}-).*(?<![A-Za-z0-9])\d(?:-?\d){8}(?:-?\d)*(?![A-Za-z0-9])/;
/** Prefixes of API keys, which look like the prefixes of ids. */
const keyPrefix = /^(?:sk|pk|rk|gh[a-z]|github_pat|xox[a-z]|glpat|hf|npm|pypi|whsec|shp[a-z]{2})[_-]/;

const nameMembers: ReadonlySet<string> = new Set(['type', 'role', 'object', 'status', 'finish_reason', 'stop_reason', 'media_type']);
const apiName = /^[a-z][a-z0-9_.+/-]{0,63}$/;

const sealedMembers: ReadonlySet<string> = new Set(['signature', 'thought_signature', 'encrypted_content']);
const urlMembers: ReadonlySet<string> = new Set(['url', 'image_url', 'video_url', 'audio_url', 'file_url', 'file_data', 'image']);

interface Visit {
  readonly value: unknown;
  /** Whether the API defines the structure around this value. */
  readonly isApi: boolean;
  /** Whether the value was decoded from a string in the body. */
  readonly isDecoded: boolean;
}

/** This isn't recursive, because a body may be nested deeper than the stack. */
function extractTexts(values: readonly unknown[], { isRequest }: { isRequest: boolean }): { texts: string[]; memberCount: number } {
  const texts: string[] = [];
  let memberCount = 0;
  const stack: Visit[] = values.map((value) => ({ value, isApi: true, isDecoded: false })).reverse();
  const root = isRequest ? values[0] : undefined;
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { value, isApi, isDecoded } = next;
    if (typeof value === 'string') {
      if (value !== '') texts.push(value);
    } else if (typeof value === 'number') {
      // The number may belong to a card, and other dialects write the input of a tool as text.
      if (!isApi) texts.push(String(value));
    } else if (Array.isArray(value)) {
      const joined = joinBlocks(value);
      if (joined !== null) texts.push(joined);
      for (let index = value.length - 1; index >= 0; index -= 1) stack.push({ value: value[index], isApi, isDecoded });
    } else if (isObject(value)) {
      const members = Object.entries(value).reverse();
      if (!isDecoded) memberCount += members.length;
      for (const [name, member] of members) {
        if (isApi ? !plainName.test(name) : !schemaWords.has(name)) texts.push(name);
        // If the gateway encoded this itself, some vendors get it translated back to plain text.
        const unsealed = name === 'encrypted_content' ? unsealReasoning(member) : null;
        if (unsealed !== null) stack.push({ value: unsealed, isApi: true, isDecoded: true });
        else if (typeof member === 'string') {
          const isText = isApi ? !isApiString(name, member, value, value === root) : !(name === 'type' && schemaTypes.has(member));
          if (isText) stack.push({ value: member, isApi, isDecoded });
          // The arguments of a tool call are a string of JSON here, but other dialects send them as an object. We also
          // check the unescaped text, because that's what such a vendor receives.
          if (isApi && name === 'arguments' && member.includes('\\'))
            stack.push({ value: parseJson(member), isApi: false, isDecoded: true });
        } else if (isRequest || name !== 'logprobs') {
          // In a tool call `input` holds the arguments, but in a body it holds the messages.
          const isChosen = typeof member === 'object' && (!apiMembers.has(name) || (name === 'input' && 'name' in value));
          stack.push({ value: member, isApi: isApi && !isChosen, isDecoded });
        }
      }
    }
  }
  return { texts, memberCount };
}

/**
 * Joins the text blocks, because the model reads them as one text and nobody should be able to hide a match by
 * splitting it. Returns null if there are fewer than two text blocks.
 */
function joinBlocks(values: readonly unknown[]): string | null {
  const texts = values.flatMap((value) => (isObject(value) && typeof value.text === 'string' ? [value.text] : []));
  return texts.length < 2 ? null : texts.join('');
}

/** Reports whether the string is an identifier, an API name, base64 or encrypted, and so isn't text. */
function isApiString(name: string, text: string, owner: JsonObject, isRoot: boolean): boolean {
  // We replace the caller's model with the vendor's, so the vendor never sees it.
  if (name === 'model') return isRoot;
  // At the top level, requests have no other identifiers or API names.
  if (isRoot && name !== 'previous_response_id') return false;
  if (idMembers.has(name)) return identifier.test(text) && !keyPrefix.test(text) && !longNumber.test(text);
  if (nameMembers.has(name)) return apiName.test(text) && !longNumber.test(text);
  if (sealedMembers.has(name)) return isEncoded(text);
  if (isBinary(name, owner)) return isEncoded(text) || isDataUrl(text);
  return urlMembers.has(name) && isDataUrl(text);
}

const encodedTypes: ReadonlySet<unknown> = new Set(['base64', 'redacted_thinking', 'reasoning.encrypted']);

/** Reports whether the member is the base64 of an image, audio or file. The `data` of a document may be plain text. */
function isBinary(name: string, owner: JsonObject): boolean {
  if (name === 'file_data' || name === 'b64_json') return true;
  if (name === 'result') return owner.type === 'image_generation_call';
  if (name !== 'data') return false;
  // Parsers that ignore case might read a different type.
  const isAmbiguous = Object.keys(owner).some((key) => key !== 'type' && key.toLowerCase() === 'type');
  return !isAmbiguous && (encodedTypes.has(owner.type) || (owner.type === undefined && typeof owner.format === 'string'));
}

/**
 * Matches base64 in either alphabet, as well as the encodings of encrypted reasoning, which contain dots and colons.
 * Without a letter it may be somebody's number.
 */
function isEncoded(text: string): boolean {
  return /[A-Za-z]/.test(text) && !/[^A-Za-z0-9+/=_.:-]/.test(text);
}

/** Reports whether the whole text is a data URL. If anything follows the URL, it counts as text. */
function isDataUrl(text: string): boolean {
  const [head] = /^data:[\w.+-]{1,64}\/[\w.+-]{1,64};base64,/i.exec(text) ?? [];
  return head !== undefined && !/[^A-Za-z0-9+/=_-]/.test(text.slice(head.length));
}
