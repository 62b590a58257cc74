/**
 * Splits texts that are too long to evaluate in one go. Neighbouring chunks overlap, so that a match of up to `overlap`
 * characters is never split. They overlap by more than that if a chunk would otherwise start in the middle of a longer
 * token, such as a JSON Web Token.
 */

export interface TextChunk {
  readonly text: string;
  /** True for the first chunk of a text, the only one in which `^` can match the start. */
  readonly isStart: boolean;
  readonly isEnd: boolean;
}

const overlap = 1024;
/** A chunk may be up to this many characters shorter, so that it ends at a space. */
const maxShift = 256;

/**
 * Don't pass a `length` of 2,000 or less, because a chunk might then contain nothing but the overlap with the previous
 * one.
 */
export function* splitText(whole: TextChunk, length: number): Generator<TextChunk> {
  const { text } = whole;
  if (text.length <= length) return yield whole;
  for (let start = 0; ; ) {
    const isLast = start + length >= text.length;
    const end = isLast ? text.length : breakBefore(text, start + length);
    yield { text: text.slice(start, end), isStart: whole.isStart && start === 0, isEnd: whole.isEnd && isLast };
    if (isLast) return;
    start = breakBefore(text, end - overlap, Math.floor(length / 4));
  }
}

const tokenCharacter = /[\w.+/=-]/;

/**
 * Moves the edge of a chunk back to a line break, other white space, or the start of a token that's no longer than
 * `maxToken`. If we split a number, half of it could match as a different number.
 */
function breakBefore(text: string, position: number, maxToken = 0): number {
  let space = -1;
  for (let at = position; at > position - maxShift; at -= 1) {
    const code = text.charCodeAt(at);
    if (code === 0x0a) return at;
    if (space < 0 && /\s/.test(text.charAt(at))) space = at;
  }
  if (space >= 0) return space;
  let start = position;
  while (start > position - maxToken && tokenCharacter.test(text.charAt(start - 1))) start -= 1;
  return start > position - maxToken ? start : position;
}

/**
 * Groups chunks into batches of up to `maxLength` characters. Requests often consist of many short strings, and a turn
 * in the thread for each of them would cost more than evaluating it.
 */
export function* batchTexts(texts: readonly string[], maxLength: number): Generator<readonly TextChunk[]> {
  let batch: TextChunk[] = [];
  let length = 0;
  for (const text of texts) {
    for (const chunk of splitText({ text, isStart: true, isEnd: true }, maxLength)) {
      if (length + chunk.text.length > maxLength) {
        yield batch;
        batch = [];
        length = 0;
      }
      batch.push(chunk);
      length += chunk.text.length;
    }
  }
  if (batch.length > 0) yield batch;
}
