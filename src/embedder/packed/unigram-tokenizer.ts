/**
 * Splits a text into the pieces of a unigram vocabulary, like SentencePiece does. It chooses the pieces with the
 * highest product of probabilities. A piece never contains a space, so we split each word separately.
 */
import { createCursor } from './read-packed.ts';

/** Returns the ids of the pieces, between the ids that mark the start and the end of the text. */
export type Tokenize = (text: string) => number[];

/** SentencePiece puts this character in front of each word. */
const wordMark = '\u2581';
/** How much lower an unknown character scores than the least likely piece. */
const unknownPenalty = 10;

export function createTokenizer(file: Buffer): Tokenize {
  const { ids, scores, start, end, unknown, replacements } = readPieces(file);
  const longest = [...ids.keys()].reduce((length, piece) => Math.max(length, piece.length), 0);
  const unknownScore = scores.reduce((least, score) => Math.min(least, score), 0) - unknownPenalty;

  const normalize = (text: string): string => {
    let normalized = '';
    for (const character of text) normalized += replacements.get(character.codePointAt(0) ?? 0) ?? character;
    return normalized.normalize('NFC').trim();
  };

  const splitWord = (word: string): number[] => {
    const whole = ids.get(word);
    if (whole !== undefined) return [whole];
    const best = new Float64Array(word.length + 1).fill(-Infinity);
    const from = new Int32Array(word.length + 1);
    const piece = new Int32Array(word.length + 1);
    best[0] = 0;
    const offer = (at: number, to: number, id: number, score: number): void => {
      if (score <= (best[to] ?? 0)) return;
      best[to] = score;
      from[to] = at;
      piece[to] = id;
    };
    for (let at = 0; at < word.length; at += 1) {
      const reached = best[at] ?? -Infinity;
      if (reached === -Infinity) continue;
      for (let to = at + 1; to <= Math.min(word.length, at + longest); to += 1) {
        const id = ids.get(word.slice(at, to));
        if (id !== undefined) offer(at, to, id, reached + (scores[id] ?? 0));
      }
      const width = (word.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
      offer(at, at + width, unknown, reached + unknownScore);
    }
    const found: number[] = [];
    for (let to = word.length; to > 0; to = from[to] ?? 0) {
      const id = piece[to] ?? unknown;
      // Merge adjacent unknown characters into a single unknown piece.
      if (id !== unknown || found.at(-1) !== unknown) found.push(id);
    }
    return found.reverse();
  };

  return (text) => {
    const words = normalize(text).split(/ +/);
    return [start, ...words.flatMap((word) => (word === '' ? [] : splitWord(wordMark + word))), end];
  };
}

/** `replacements` maps code points to their replacements, as defined by the model's normalizer. */
function readPieces(file: Buffer) {
  const read = createCursor(file);
  const count = read.uint32();
  const [start, end, padding, unknown] = [read.uint32(), read.uint32(), read.uint32(), read.uint32()];
  const bytes = read.uint64();
  const offsets = Array.from({ length: count + 1 }, () => read.uint32());
  const scores = Float32Array.from({ length: count }, () => read.float());
  const text = read.at();
  const ids = new Map<string, number>();
  for (let id = 0; id < count; id += 1) {
    if (id === start || id === end || id === padding || id === unknown) continue;
    ids.set(file.toString('utf8', text + (offsets[id] ?? 0), text + (offsets[id + 1] ?? 0)), id);
  }
  read.skip(bytes);
  const replacements = new Map<number, string>();
  const replaced = read.uint32();
  read.skip(4);
  for (let left = replaced; left > 0; left -= 1) {
    const character = read.uint32();
    replacements.set(character, String.fromCodePoint(...Array.from({ length: read.uint8() }, () => read.uint32())));
  }
  return { ids, scores, start, end, unknown, replacements };
}
