import { gatewayError } from '../../core/errors.ts';
import {
  type BodySpans,
  decodeString,
  type Member,
  type SkipMember,
  scanElements,
  scanMembers,
  scanObject,
} from '../../core/json/spans.ts';
import { JsonSyntaxError } from '../../core/json/syntax.ts';
import { factsOf } from './body-facts.ts';
import { knownRegionsOf, unknownPieces } from './known-regions.ts';

/** Returns the positions of the fields `keys` in a JSON body. Throws `bad_json` if the JSON is invalid. */
export function scanJson(body: Buffer, keys: ReadonlySet<string>, skip?: SkipMember): BodySpans {
  try {
    return scanObject(body, keys, skip);
  } catch (error) {
    if (error instanceof JsonSyntaxError)
      throw gatewayError('bad_json', { message: `the body is not valid JSON: ${error.message}`, cause: error });
    throw error;
  }
}

/**
 * Fields with which vendors run other models, use another deployment, or run tools that we can't price: OpenRouter's
 * first four, Anthropic's `fallbacks`, Groq's `compound_custom`, Together's `safety_model`, LM Studio's `draft_model`
 * and Azure's `data_sources`. With xAI's `deferred`, the vendor generates a response that we never see.
 */
const otherModelKeys = [
  ...['models', 'plugins', 'preset', 'provider', 'fallbacks', 'compound_custom', 'safety_model', 'draft_model', 'data_sources'],
  'deferred',
];

/**
 * Fields that affect what a vendor bills. We reject bodies that contain one of them twice, because the gateway and the
 * vendor have to use the same value.
 */
export const billedKeys: readonly string[] = [
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'prediction', 'service_tier', 'speed', 'inference_geo'],
  ...['tools', 'max_tool_calls', 'web_search_options', 'previous_response_id', 'conversation', 'prompt', 'background'],
  ...['mcp_servers', 'cached_content', 'cachedContent', 'extra_body', 'google', 'query', 'documents', 'context_management'],
];

/** All fields that the gateway reads from the body on text routes. */
export const bodyKeys: ReadonlySet<string> = new Set([
  ...billedKeys,
  ...otherModelKeys,
  ...['model', 'stream', 'stream_options', 'messages', 'system', 'input', 'instructions', 'functions', 'user', 'metadata'],
  ...['temperature', 'anthropic_beta', 'store', 'thread'],
]);

export function rejectBody(message: string): never {
  throw gatewayError('bad_json', { message });
}

/**
 * Throws `bad_json` if the body contains one of `keys` more than once, because the gateway and the vendor might use
 * different values.
 */
export function rejectDuplicateKeys({ repeated }: BodySpans, keys: readonly string[]): void {
  const key = repeated.size === 0 ? undefined : keys.find((name) => repeated.has(name));
  if (key !== undefined) rejectBody(`${key}: duplicate key`);
}

/**
 * Throws `bad_json` if the body lets the vendor use a model other than the planned one, or tools that we can't price.
 * Some vendors ignore the case of keys, so a `Model` could replace `model`.
 */
export function rejectOtherModels(body: Buffer, { members, lookalike }: BodySpans): void {
  const isSet = (name: string): boolean => isInUse(members.get(name));
  const key = lookalike ?? otherModelKeys.find(isSet) ?? findModelTool(body, members.get('tools'));
  if (key !== undefined)
    rejectBody(`${key}: not allowed, because the key or its project restricts models, requires tags or has a cost ceiling`);
}

const toolKeys: ReadonlySet<string> = new Set(['type', 'model']);
const toolMarks = ['"model"', '"advisor', '"openrouter:'] as const;

/** Returns false for null, false, and empty lists and objects, which some SDKs send for every field. */
function isInUse(member: Member | undefined): boolean {
  if (member === undefined || member.kind === 'null' || member.kind === 'false') return false;
  const isList = member.kind === 'array' || member.kind === 'object';
  return !isList || member.value.end - member.value.start > 2;
}

/** Vendors accept a few hundred tools at most. Checking millions would take seconds. */
const maxCheckedTools = 1_000;

/**
 * Returns the path of the first tool that has the vendor call another model, e.g. Anthropic's advisor. The model of
 * `image_generation` is fine, because the price of this tool covers every model.
 */
function findModelTool(body: Buffer, tools: Member | undefined): string | undefined {
  if (tools?.kind !== 'array') return undefined;
  const text = body.subarray(tools.value.start, tools.value.end);
  if (!toolMarks.some((mark) => text.includes(mark)) && !hidesAscii(text)) return undefined;
  let position = 0;
  for (const { kind, value } of scanElements(body, tools.value.start)) {
    if (position === maxCheckedTools) return 'tools';
    if (kind === 'object') {
      const { members, repeated } = scanMembers(body, value.start, toolKeys);
      const type = parseStringMember(body, members.get('type')) ?? '';
      const hasModel = (members.get('model')?.kind ?? 'null') !== 'null' && type !== 'image_generation';
      if (hasModel || repeated.has('type') || callsOtherModel(type)) return `tools.${position}`;
    }
    position += 1;
  }
  return undefined;
}

/** Returns true for Anthropic's advisors and OpenRouter's server tools, most of which call another model. */
export function callsOtherModel(toolType: string): boolean {
  return toolType.startsWith('advisor') || toolType.startsWith('openrouter:');
}

/**
 * Returns the value of `stream`. Null counts as false, because OpenAI's API allows it. If the value has the wrong type,
 * throws `bad_json` with this message.
 */
export function parseStream({ members }: BodySpans, message: string): boolean {
  const kind = members.get('stream')?.kind ?? 'null';
  if (kind !== 'true' && kind !== 'false' && kind !== 'null') rejectBody(message);
  return kind === 'true';
}

export function parseStringMember(body: Buffer, member: Member | undefined): string | null {
  return member?.kind === 'string' ? decodeString(body, member.value) : null;
}

/** Returns the end user that a body names. Null if it names none, and an empty string if it isn't a string. */
export function parseUser(body: Buffer, member: Member | undefined): string | null {
  return member === undefined || member.kind === 'null' ? null : (parseStringMember(body, member) ?? '');
}

/**
 * Returns the output limit of a request. There are several fields for it, and vendors don't agree on which of them
 * counts, so we take the largest value. The fields in `others` aren't documented for the route. They can raise a limit
 * that one of `names` sets, but on their own they don't count.
 *
 * Returns null if there's no limit. We also return null if a value isn't a positive integer, e.g. `"100"` or `-1`,
 * because every vendor makes something different of it.
 */
export function parseOutputLimit(
  body: Buffer,
  { members }: BodySpans,
  { names, others = [] }: { readonly names: readonly string[]; readonly others?: readonly string[] },
): number | null {
  let limit: number | null = null;
  for (const name of names.concat(others)) {
    const member = members.get(name);
    if (member === undefined || member.kind === 'null') continue;
    const value = parsePositiveInteger(body, member);
    if (value === null) return null;
    if (limit !== null || names.includes(name)) limit = Math.max(limit ?? 0, value);
  }
  return limit;
}

/**
 * The fields that limit the output on any text route. All of them are checked on every route, because some vendors also
 * obey the fields of other routes.
 */
const limitKeys = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'] as const;

/**
 * Checks whether a request limits its output. Unlike `parseOutputLimit`, this includes malformed values, because the
 * vendor might understand them.
 */
export function hasOutputLimit({ members }: BodySpans): boolean {
  return limitKeys.some((key) => (members.get(key)?.kind ?? 'null') !== 'null');
}

/** Returns null if the field isn't a positive safe integer. */
export function parsePositiveInteger(body: Buffer, member: Member | undefined): number | null {
  if (member?.kind !== 'number') return null;
  const value = Number(body.toString('latin1', member.value.start, member.value.end));
  return Number.isSafeInteger(value) && value > 0 ? value : null;
}

/**
 * Parses a number from a string. Some vendors accept `08`, `+8` and `1_0`, so we do too. Returns null if the result
 * isn't a positive integer.
 */
export function parseLenientCount(text: string): number | null {
  const value = Number(text.replaceAll('_', ''));
  return Number.isSafeInteger(value) && value > 0 ? value : null;
}

/**
 * Returns true if the caller explicitly asks for random samples, by setting `temperature` above 0 or by requesting
 * several choices. A missing `temperature` doesn't count, even though the vendor's default may be above 0.
 */
export function asksForSampling(body: Buffer, { members }: BodySpans): boolean {
  return parseAmount(body, members.get('temperature')) > 0 || parseAmount(body, members.get('n')) > 1;
}

/** Parses a number, or a string with a number because some vendors accept that. Returns NaN for everything else. */
function parseAmount(body: Buffer, member: Member | undefined): number {
  const text = member?.kind === 'number' ? body.toString('latin1', member.value.start, member.value.end) : parseStringMember(body, member);
  return text === null ? Number.NaN : Number(text);
}

const escapedAscii = Buffer.from('\\u00');
const backslash = 0x5c;
const letterU = 0x75;
const zero = 0x30;

/**
 * Returns true if the body may contain escaped letters or underscores, such as `\u0061`. In that case we can't rely on
 * searching the bytes for a name. JSON encoders don't normally produce such escapes, because they only escape
 * characters such as `<` and `é`.
 */
export function hidesAscii(body: Buffer): boolean {
  const known = factsOf(body)?.hidesAscii;
  if (known !== undefined) return known;
  return knownRegionsOf(body).some((region) => region.hidesAscii) || unknownPieces(body).some(hasEscapedLetter);
}

function hasEscapedLetter(body: Buffer): boolean {
  const first = body.indexOf(escapedAscii);
  if (first < 0) return false;
  // Text in many languages has thousands of escapes. Searching for each one with `indexOf` takes ten times as long as
  // this loop (measured).
  for (let at = first; at < body.length; at += 1) {
    if (body[at] !== backslash) continue;
    at += 1;
    if (body[at] !== letterU || body[at + 1] !== zero || body[at + 2] !== zero) continue;
    const digit = body[at + 3] ?? 0;
    // .NET escapes backticks as well, but no name contains one.
    if (digit >= 0x34 && digit <= 0x37 && /\w/.test(String.fromCharCode(Number.parseInt(body.toString('latin1', at + 3, at + 5), 16))))
      return true;
  }
  return false;
}
