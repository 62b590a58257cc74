/**
 * Extracts the text of a request or response for content rules. Vendors receive the whole request, so we check all of
 * it, i.e. messages, tools, schemas with their property names, metadata, and fields that the gateway doesn't know.
 *
 * Identifiers, the API's own type names, base64 and encrypted thinking are left out, but only where the API defines
 * them and only if the value has the right form. If we were less strict, a caller could hide text in them.
 */
import type { TextRoute } from '../../core/call.ts';
import { asObject, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { scanTokens } from '../../core/json/scan-tokens.ts';
import { factsOf } from '../json/body-facts.ts';
import { rejectBody } from '../json/body-members.ts';
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
 * Returns the strings of a body whose syntax has been checked. Throws `bad_json` if any object in the body repeats a
 * key. In that case parsers disagree on which value they use, so the vendor might read the one that we didn't check.
 */
export function readRequestTexts(body: Buffer): readonly string[] {
  const known = factsOf(body)?.texts;
  if (known) return known;
  const { memberCount, longNumbers } = scanTokens(body);
  const read = extractTexts([parseJson(body.toString('utf8'))], { isRequest: true });
  if (read.memberCount !== memberCount) rejectBody('duplicate key: the same key appears twice in an object of the body');
  return [...read.texts, ...longNumbers];
}

export function extractResponseTexts(route: TextRoute, response: unknown): string[] {
  const members = asObject(response);
  const values = responseMembers[route].map((name) => members[name]);
  return extractTexts(values, { isRequest: false }).texts;
}

/**
 * Inside these fields, the API defines the names of all fields. Everywhere else, e.g. in arguments, schemas and
 * metadata, callers make up their own names.
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

/** Matches names that could belong to the API. Content rules check all other names. */
const plainName = /^[a-z_$][\w$-]{0,63}$/i;
/**
 * Names that belong to JSON Schema or to tool definitions. All other names in a schema were chosen by the caller, so
 * content rules check them.
 */
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
 * An id as vendors write it (a prefix and characters), a UUID, or another short id. Plain digits don't count, because
 * they could be somebody's phone number.
 */
const identifier =
  /^(?:[a-z]{2,9}_[\w-]{1,128}|(?:chatcmpl|call|gen|file|msg|tool)-[\w-]{1,128}|functions\.[\w-]{1,64}:\d{1,4}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=\d*[A-Za-z])[A-Za-z0-9]{1,12})$/;
/**
 * Matches ids that contain a number as long as a card or phone number, because somebody could hide one there. We
 * exclude UUIDs, where this is a coincidence.
 */
const longNumber = /^(?![0-9a-f]{8}-).*(?<![A-Za-z0-9])\d(?:-?\d){8}(?:-?\d)*(?![A-Za-z0-9])/;
/**
 * Matches the beginning of well-known API keys. Without this check, a key in an id field would pass as an identifier.
 */
const keyPrefix = /^(?:sk|pk|rk|gh[a-z]|github_pat|xox[a-z]|glpat|hf|npm|pypi|whsec|shp[a-z]{2})[_-]/;

const nameMembers: ReadonlySet<string> = new Set(['type', 'role', 'object', 'status', 'finish_reason', 'stop_reason', 'media_type']);
const apiName = /^[a-z][a-z0-9_.+/-]{0,63}$/;

const sealedMembers: ReadonlySet<string> = new Set(['signature', 'thought_signature', 'encrypted_content']);
const urlMembers: ReadonlySet<string> = new Set(['url', 'image_url', 'video_url', 'audio_url', 'file_url', 'file_data', 'image']);

interface Visit {
  readonly value: unknown;
  /**
   * True if the API defines the field names of this value. False if the caller has made them up, e.g. in tool
   * arguments.
   */
  readonly isApi: boolean;
  /** True if the value was decoded from JSON inside a string. */
  readonly isDecoded: boolean;
}

/** We don't use recursion, because a deeply nested body could overflow the stack. */
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
      // Check numbers too. The input of a tool may contain a card number, and if we translate the request, the vendor
      // receives it as text.
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
        // The plain text of reasoning that the gateway sealed has to be checked, because some vendors receive it after
        // the translation.
        const unsealed = name === 'encrypted_content' ? unsealReasoning(member) : null;
        if (unsealed !== null) stack.push({ value: unsealed, isApi: true, isDecoded: true });
        else if (typeof member === 'string') {
          const isText = isApi ? !isApiString(name, member, value, value === root) : !(name === 'type' && schemaTypes.has(member));
          if (isText) stack.push({ value: member, isApi, isDecoded });
          // The arguments of a tool call are JSON in a string, but vendors of other dialects receive them as an object.
          // So check the unescaped text too.
          if (isApi && name === 'arguments' && member.includes('\\'))
            stack.push({ value: parseJson(member), isApi: false, isDecoded: true });
        } else if (isRequest || name !== 'logprobs') {
          // A field called `input` contains either the arguments of a tool call or the messages of a request. Only a
          // tool call has a name.
          const isChosen = typeof member === 'object' && (!apiMembers.has(name) || (name === 'input' && 'name' in value));
          stack.push({ value: member, isApi: isApi && !isChosen, isDecoded });
        }
      }
    }
  }
  return { texts, memberCount };
}

/**
 * The model reads several text blocks as a single text, so check them joined as well. Otherwise, splitting a text could
 * hide a match. Returns null if there are fewer than two blocks.
 */
function joinBlocks(values: readonly unknown[]): string | null {
  const texts = values.flatMap((value) => (isObject(value) && typeof value.text === 'string' ? [value.text] : []));
  return texts.length < 2 ? null : texts.join('');
}

/** Returns true if the string needs no check because it's an identifier, an API name, base64 or encrypted. */
export function isApiString(name: string, text: string, owner: JsonObject, isRoot: boolean): boolean {
  // The vendor never sees the caller's `model`, because the gateway replaces it.
  if (name === 'model') return isRoot;
  // At the top level of a request, only `model` and `previous_response_id` are identifiers, so check all other strings.
  if (isRoot && name !== 'previous_response_id') return false;
  if (idMembers.has(name)) return identifier.test(text) && !keyPrefix.test(text) && !longNumber.test(text);
  if (nameMembers.has(name)) return apiName.test(text) && !longNumber.test(text);
  if (sealedMembers.has(name)) return isEncoded(text);
  if (isBinary(name, owner)) return isEncoded(text) || isDataUrl(text);
  return urlMembers.has(name) && isDataUrl(text);
}

const encodedTypes: ReadonlySet<unknown> = new Set(['base64', 'redacted_thinking', 'reasoning.encrypted']);

/**
 * Checks whether the API requires base64 in this field. The `data` of a document doesn't count, because it may also be
 * plain text.
 */
function isBinary(name: string, owner: JsonObject): boolean {
  if (name === 'file_data' || name === 'b64_json') return true;
  if (name === 'result') return owner.type === 'image_generation_call';
  if (name !== 'data') return false;
  // Some parsers ignore the case of keys. If there's another spelling of `type`, they might use that one.
  const isAmbiguous = Object.keys(owner).some((key) => key !== 'type' && key.toLowerCase() === 'type');
  return !isAmbiguous && (encodedTypes.has(owner.type) || (owner.type === undefined && typeof owner.format === 'string'));
}

/**
 * Checks whether the text is base64 (in either alphabet) or encrypted reasoning, where dots and colons are allowed too.
 * There has to be a letter, because digits alone could be somebody's phone number.
 */
function isEncoded(text: string): boolean {
  return /[A-Za-z]/.test(text) && !/[^A-Za-z0-9+/=_.:-]/.test(text);
}

/** Checks whether the whole text is a data URL. If anything follows the URL, all of it counts as text. */
function isDataUrl(text: string): boolean {
  const [head] = /^data:[\w.+-]{1,64}\/[\w.+-]{1,64};base64,/i.exec(text) ?? [];
  return head !== undefined && !/[^A-Za-z0-9+/=_-]/.test(text.slice(head.length));
}
