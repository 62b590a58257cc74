/** Parses single members of a scanned body. */
import type { BodySpans, Member } from '../../core/json/spans.ts';
import { decodeString } from '../../core/json/spans.ts';

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
]);

/** The first of `keys` that the body repeats, null when none: gateway and vendor could use different values, so such a body is rejected. */
export function findDuplicateKey(spans: BodySpans, keys: readonly string[]): string | null {
  if (spans.repeated.size === 0) return null;
  return keys.find((key) => spans.repeated.has(key)) ?? null;
}

export function parseStringMember(body: Buffer, member: Member | undefined): string | null {
  return member?.kind === 'string' ? decodeString(body, member.value) : null;
}

/** A positive safe integer. Null for everything else. */
export function parsePositiveInteger(body: Buffer, member: Member | undefined): number | null {
  if (member?.kind !== 'number') return null;
  const value = Number(body.toString('latin1', member.value.start, member.value.end));
  return Number.isSafeInteger(value) && value > 0 ? value : null;
}
