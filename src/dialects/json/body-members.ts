/** Parses single members of a scanned body. */
import { gatewayError } from '../../core/errors.ts';
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
  'background',
]);

/** Throws `bad_json` when the body repeats one of `keys`: gateway and vendor could use different values. */
export function rejectDuplicateKeys({ repeated }: BodySpans, keys: readonly string[]): void {
  const key = repeated.size === 0 ? undefined : keys.find((name) => repeated.has(name));
  if (key !== undefined) throw gatewayError('bad_json', { message: `${key}: duplicate key` });
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
