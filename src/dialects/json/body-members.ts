/** Parses single members of a scanned body. */
import { gatewayError } from '../../core/errors.ts';
import type { BodySpans, Member } from '../../core/json/spans.ts';
import { decodeString } from '../../core/json/spans.ts';

/** Members with which OpenRouter lets a caller choose other models, and tools that it bills. */
const otherModelKeys = ['models', 'plugins'] as const;

/** All members of a body that the gateway reads on text routes. */
export const bodyKeys: ReadonlySet<string> = new Set([
  'model',
  'stream',
  'stream_options',
  'messages',
  'system',
  'user',
  'metadata',
  'tools',
  'functions',
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'n',
  'prediction',
  'service_tier',
  'speed',
  'inference_geo',
  'max_tool_calls',
  'web_search_options',
  'previous_response_id',
  'conversation',
  'prompt',
  'background',
  ...otherModelKeys,
]);

/** Members that change what a vendor bills, so that the gateway and the vendor have to read the same value. */
export const billedKeys: readonly string[] = [
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'prediction', 'service_tier', 'speed', 'inference_geo'],
  ...['tools', 'max_tool_calls', 'web_search_options', 'previous_response_id', 'conversation', 'prompt', 'background'],
];

/** Throws `bad_json` when the body repeats one of `keys`: gateway and vendor could use different values. */
export function rejectDuplicateKeys({ repeated }: BodySpans, keys: readonly string[]): void {
  const key = repeated.size === 0 ? undefined : keys.find((name) => repeated.has(name));
  if (key !== undefined) throw gatewayError('bad_json', { message: `${key}: duplicate key` });
}

/** Throws `bad_json` when the body lets the vendor choose another model than the one that was planned, or use tools that we can't price. */
export function rejectOtherModels({ members }: BodySpans): void {
  const key = otherModelKeys.find((name) => members.has(name));
  if (key === undefined) return;
  throw gatewayError('bad_json', { message: `${key}: not accepted with this key, which has a list of models or a ceiling of cost` });
}

export function parseStringMember(body: Buffer, member: Member | undefined): string | null {
  return member?.kind === 'string' ? decodeString(body, member.value) : null;
}

/**
 * The output limit of a request: the largest of the members that set it. Vendors differ in which one they obey when there are several, so
 * those of `others`, which the route does not document, can only raise it. Null when none of `names` is there, or when one of them all is not a
 * positive integer: a vendor may read `"100"` or `-1` in its own way.
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

/** A positive safe integer. Null for everything else. */
export function parsePositiveInteger(body: Buffer, member: Member | undefined): number | null {
  if (member?.kind !== 'number') return null;
  const value = Number(body.toString('latin1', member.value.start, member.value.end));
  return Number.isSafeInteger(value) && value > 0 ? value : null;
}

/** A number that is written as a text, as lenient vendors read it: `08`, `+8` and `1_0` count too. Null when it is not a positive integer. */
export function parseLenientCount(text: string): number | null {
  const value = Number(text.replaceAll('_', ''));
  return Number.isSafeInteger(value) && value > 0 ? value : null;
}

const escapedAscii = Buffer.from('\\u00');
const backslash = 0x5c;
const letterU = 0x75;
const zero = 0x30;

/**
 * Whether letters or underscores may be written as escapes (`\u0061`), so that a search for a name would not find it. No JSON encoder does that
 * by itself; characters that they do escape, such as `<` and `é`, have other codes.
 */
export function hidesAscii(body: Buffer): boolean {
  const first = body.indexOf(escapedAscii);
  if (first < 0) return false;
  // Byte by byte, because texts of many languages have thousands of escapes, and a native search for each takes ten times as long (measured).
  for (let at = first; at < body.length; at += 1) {
    if (body[at] !== backslash) continue;
    at += 1;
    if (body[at] !== letterU || body[at + 1] !== zero || body[at + 2] !== zero) continue;
    const digit = body[at + 3] ?? 0;
    if (digit >= 0x34 && digit <= 0x37) return true;
  }
  return false;
}
