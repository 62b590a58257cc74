/**
 * Removes members from a scanned JSON object without serializing it again, so that we can compare bodies that only
 * differ in these members.
 */
import type { BodySpans, Member } from './spans.ts';
import { skipSpace } from './syntax.ts';

const comma = 0x2c;

/**
 * Returns the chunks of the body that remain without these members. We remove each member with its key and one comma,
 * which leaves what the caller would have sent without it. The chunks are views of `bytes`.
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
    // We remove a member with the comma after it, and the last member with the comma before it.
    const isLast = bytes[next] !== comma;
    if (isLast) trimComma(chunks);
    from = isLast ? cut.value.end : skipSpace(bytes, next + 1);
  }
  chunks.push(bytes.subarray(from));
  return chunks;
}

/** Removes the comma at the end of the last chunk and the white space around it. */
function trimComma(chunks: Buffer[]): void {
  const last = chunks.at(-1);
  if (!last) return;
  const end = trimmedEnd(last, last.length);
  if (last[end - 1] === comma) chunks[chunks.length - 1] = last.subarray(0, trimmedEnd(last, end - 1));
}

/** Returns `end` moved back over the white space before it. */
function trimmedEnd(bytes: Buffer, end: number): number {
  let position = end;
  while (position > 0 && isSpace(bytes[position - 1])) position -= 1;
  return position;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
