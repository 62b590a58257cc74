/**
 * Splits texts that are too long to be read at once. Chunks overlap by `overlap` characters, so that no shorter match is split.
 */

/** A part of a text, or all of it. */
export interface TextChunk {
  readonly text: string;
  /** It begins where the text begins. */
  readonly isStart: boolean;
  readonly isEnd: boolean;
}

const overlap = 1024;
/** How far back white space is searched for. */
const maxShift = 256;

/** `length` must be more than 2,000. */
export function* splitText(whole: TextChunk, length: number): Generator<TextChunk> {
  const { text } = whole;
  if (text.length <= length) return yield whole;
  for (let start = 0; ; ) {
    const isLast = start + length >= text.length;
    const end = isLast ? text.length : breakBefore(text, start + length);
    yield { text: text.slice(start, end), isStart: whole.isStart && start === 0, isEnd: whole.isEnd && isLast };
    if (isLast) return;
    start = breakBefore(text, end - overlap);
  }
}

/** A position for the edge of a chunk: at a line end, else at white space, because half a number could be a different one. */
function breakBefore(text: string, position: number): number {
  let space = -1;
  for (let at = position; at > position - maxShift; at -= 1) {
    const code = text.charCodeAt(at);
    if (code === 0x0a) return at;
    if (space < 0 && /\s/.test(text.charAt(at))) space = at;
  }
  return space < 0 ? position : space;
}

/** Batches of chunks with `maxLength` characters at most: a turn of the thread for each string of a request would cost more than its evaluation. */
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
