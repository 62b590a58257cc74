/** Hashes everything in a body that can change the response, so that we can compare requests. */
import { createHash } from 'node:crypto';
import type { BodySpans, Member } from '../../core/json/spans.ts';
import { skipSpace } from '../../core/json/syntax.ts';
import { factsOf } from './body-facts.ts';

/**
 * Fields that we leave out of the digest. The model is already identified by the call's candidates, and `stream` and
 * `stream_options` only select the format of the response.
 */
const excludedMembers = ['model', 'stream', 'stream_options'];

/** Returns the body without the fields that have no effect on the content of the response. */
export function parameterBytes(body: Buffer, spans: BodySpans): Buffer[] {
  return omitMembers(body, spans, excludedMembers);
}

export function digestParameters(body: Buffer, spans: BodySpans): string {
  const known = factsOf(body)?.digest;
  if (known) return known;
  const digest = createHash('sha256');
  for (const part of parameterBytes(body, spans)) digest.update(part);
  return digest.digest('base64');
}

const comma = 0x2c;

/**
 * Returns the body without the fields in `keys`, as views of `bytes`. We also drop one comma per field, so the chunks
 * are still valid JSON when joined.
 */
export function omitMembers(bytes: Buffer, spans: BodySpans, keys: readonly string[]): Buffer[] {
  const cuts: Member[] = [];
  for (const key of keys) {
    const member = spans.members.get(key);
    if (member) cuts.push(member);
  }
  if (cuts.length > 1) cuts.sort((a, b) => a.start - b.start);
  const chunks: Buffer[] = [];
  let from = 0;
  for (const cut of cuts) {
    if (cut.start > from) chunks.push(bytes.subarray(from, cut.start));
    const next = skipSpace(bytes, cut.value.end);
    // Cut the comma after the member. The last member has no comma after it, so cut the one before it.
    const isLast = bytes[next] !== comma;
    if (isLast) trimComma(chunks);
    from = isLast ? cut.value.end : skipSpace(bytes, next + 1);
  }
  chunks.push(bytes.subarray(from));
  return chunks;
}

function trimComma(chunks: Buffer[]): void {
  const last = chunks.at(-1);
  if (!last) return;
  const end = trimmedEnd(last, last.length);
  if (last[end - 1] === comma) chunks[chunks.length - 1] = last.subarray(0, trimmedEnd(last, end - 1));
}

/** Returns the position after the last character before `end` that isn't white space. */
export function trimmedEnd(bytes: Buffer, end: number): number {
  let position = end;
  while (position > 0 && isSpace(bytes[position - 1])) position -= 1;
  return position;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
