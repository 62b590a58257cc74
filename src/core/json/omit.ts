/** Cuts members out of a scanned JSON object, bytes for bytes: for comparing bodies that differ in these members only. */
import type { BodySpans } from './spans.ts';
import { skipSpace } from './syntax.ts';

const comma = 0x2c;

/**
 * The pieces that are left of the body when members are cut out, each with its key and one comma: what is left is what the caller would
 * have sent without them. The pieces are views of `bytes`.
 */
export function omitMembers(bytes: Buffer, spans: BodySpans, keys: readonly string[]): Buffer[] {
  const cuts = keys.flatMap((key) => spans.members.get(key) ?? []).sort((a, b) => a.start - b.start);
  const chunks: Buffer[] = [];
  let from = 0;
  for (const cut of cuts) {
    if (cut.start > from) chunks.push(bytes.subarray(from, cut.start));
    const behind = skipSpace(bytes, cut.value.end);
    // The comma behind it goes with it; the last member takes the one before it.
    const isLast = bytes[behind] !== comma;
    if (isLast) trimComma(chunks);
    from = isLast ? cut.value.end : skipSpace(bytes, behind + 1);
  }
  chunks.push(bytes.subarray(from));
  return chunks;
}

/** Takes the comma that the last piece ends with away, and the white space around it. */
function trimComma(chunks: Buffer[]): void {
  const last = chunks.at(-1);
  if (!last) return;
  const end = trimmedEnd(last, last.length);
  if (last[end - 1] === comma) chunks[chunks.length - 1] = last.subarray(0, trimmedEnd(last, end - 1));
}

/** `end` without the white space before it. */
function trimmedEnd(bytes: Buffer, end: number): number {
  let position = end;
  while (position > 0 && isSpace(bytes[position - 1])) position -= 1;
  return position;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
