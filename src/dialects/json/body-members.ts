/** Parses individual members of a scanned body. */
import { gatewayError } from '../../core/errors.ts';
import type { BodySpans, Member } from '../../core/json/spans.ts';
import { decodeString } from '../../core/json/spans.ts';
import { factsOf } from './body-facts.ts';

/** OpenRouter accepts these members. They let the caller choose other models, or tools that OpenRouter bills. */
const otherModelKeys = ['models', 'plugins'] as const;

/** All members of a body that the gateway reads on text routes. */
export const bodyKeys: ReadonlySet<string> = new Set([
  'model',
  'stream',
  'stream_options',
  'messages',
  'system',
  'input',
  'instructions',
  'user',
  'metadata',
  'tools',
  'functions',
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'n',
  'temperature',
  'prediction',
  'service_tier',
  'speed',
  'inference_geo',
  'anthropic_beta',
  'max_tool_calls',
  'web_search_options',
  'previous_response_id',
  'conversation',
  'prompt',
  'background',
  'store',
  ...otherModelKeys,
]);

/**
 * Members that change what a vendor bills. The gateway and the vendor have to read the same value, so they can't be
 * repeated.
 */
export const billedKeys: readonly string[] = [
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'prediction', 'service_tier', 'speed', 'inference_geo'],
  ...['tools', 'max_tool_calls', 'web_search_options', 'previous_response_id', 'conversation', 'prompt', 'background'],
];

/**
 * Throws `bad_json` if the body repeats one of `keys`, because the gateway and the vendor might use different values.
 */
export function rejectDuplicateKeys({ repeated }: BodySpans, keys: readonly string[]): void {
  const key = repeated.size === 0 ? undefined : keys.find((name) => repeated.has(name));
  if (key !== undefined) throw gatewayError('bad_json', { message: `${key}: duplicate key` });
}

/**
 * Throws `bad_json` if the body lets the vendor use a model other than the planned one, or tools that we can't price.
 */
export function rejectOtherModels({ members }: BodySpans): void {
  const key = otherModelKeys.find((name) => members.has(name));
  if (key === undefined) return;
  throw gatewayError('bad_json', {
    message: `${key}: not accepted, because the key or its project has a list of models, required tags or a ceiling of cost`,
  });
}

export function parseStringMember(body: Buffer, member: Member | undefined): string | null {
  return member?.kind === 'string' ? decodeString(body, member.value) : null;
}

/**
 * Returns the output limit of a request. Several members may set it, and vendors differ in which one they obey, so we
 * take the largest value. Members in `others`, which the route doesn't document, can raise the limit but don't set one
 * on their own. Returns null if none of `names` is present, or if any of these members isn't a positive integer,
 * because a vendor may interpret `"100"` or `-1` in its own way.
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

/** Returns null unless the member is a positive safe integer. */
export function parsePositiveInteger(body: Buffer, member: Member | undefined): number | null {
  if (member?.kind !== 'number') return null;
  const value = Number(body.toString('latin1', member.value.start, member.value.end));
  return Number.isSafeInteger(value) && value > 0 ? value : null;
}

/**
 * Parses a number in a string as leniently as some vendors do, so `08`, `+8` and `1_0` are valid. Returns null if the
 * result isn't a positive integer.
 */
export function parseLenientCount(text: string): number | null {
  const value = Number(text.replaceAll('_', ''));
  return Number.isSafeInteger(value) && value > 0 ? value : null;
}

/**
 * Reports whether the caller asks for samples that differ from call to call, by a `temperature` above 0 or by several choices. Without
 * `temperature` the vendor's default applies, which the caller didn't ask for.
 */
export function asksForSampling(body: Buffer, { members }: BodySpans): boolean {
  return parseAmount(body, members.get('temperature')) > 0 || parseAmount(body, members.get('n')) > 1;
}

/** Parses a number. It may also be a string, because some vendors accept that. Returns NaN for everything else. */
function parseAmount(body: Buffer, member: Member | undefined): number {
  const text = member?.kind === 'number' ? body.toString('latin1', member.value.start, member.value.end) : parseStringMember(body, member);
  return text === null ? Number.NaN : Number(text);
}

const escapedAscii = Buffer.from('\\u00');
const backslash = 0x5c;
const letterU = 0x75;
const zero = 0x30;

/**
 * Reports whether letters or underscores may be written as escapes (`\u0061`), in which case searching the bytes for
 * a name could miss it. JSON encoders never do this on their own. The characters that they do escape, such as `<` and
 * `é`, have other codes.
 */
export function hidesAscii(body: Buffer): boolean {
  const known = factsOf(body)?.hidesAscii;
  if (known !== undefined) return known;
  const first = body.indexOf(escapedAscii);
  if (first < 0) return false;
  // We go byte by byte because text in many languages has thousands of escapes. A native search for each of them
  // takes ten times as long (measured).
  for (let at = first; at < body.length; at += 1) {
    if (body[at] !== backslash) continue;
    at += 1;
    if (body[at] !== letterU || body[at + 1] !== zero || body[at + 2] !== zero) continue;
    const digit = body[at + 3] ?? 0;
    if (digit >= 0x34 && digit <= 0x37) return true;
  }
  return false;
}
