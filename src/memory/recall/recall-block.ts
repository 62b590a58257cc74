/**
 * Formats memories as lines for a prompt. The block is marked as data, and its length is limited. Lines don't contain
 * links or markup. Each one says when the memory was written, and where it comes from unless that's a conversation. We
 * leave out duplicates.
 */
import { limitMarks } from '../../core/combining-marks.ts';
import { wrapRecalled } from '../../dialects/prompt/recalled-block.ts';
import { findInjection } from '../../guardrails/injection.ts';
import type { Item } from '../records/item-record.ts';

export type RecalledMemory = Pick<Item, 'id' | 'text' | 'origin' | 'subject' | 'pinned' | 'createdAt'>;

export interface RecallLimits {
  readonly maxMemories: number;
  /** The maximum size of all lines together. `sizeOf` returns the size of a single line. */
  readonly maxSize: number;
  readonly sizeOf: (line: string) => number;
}

/** An estimate of how many bytes a token has. We use the same estimate everywhere. */
const bytesPerToken = 4;
/** The limits if the project has no token budget. Sizes are in characters then, and in bytes otherwise. */
const defaultLimits: RecallLimits = { maxMemories: 10, maxSize: 4_000, sizeOf: (line) => line.length };
/**
 * The maximum number of memories in a block if the project has a token budget. It applies no matter how large the
 * budget is.
 */
const maxMemoriesInBudget = 100;

/**
 * Returns the limits for a budget of this many tokens, from which we subtract the frame of the block. Without a budget,
 * the block can have ten memories.
 */
export function toRecallLimits(budgetTokens: number | null): RecallLimits {
  if (budgetTokens === null) return defaultLimits;
  const maxSize = budgetTokens * bytesPerToken - Buffer.byteLength(wrapRecalled('recall', []));
  // plus 1 byte for the line break
  return { maxMemories: maxMemoriesInBudget, maxSize, sizeOf: (line) => Buffer.byteLength(line) + 1 };
}

/**
 * Added to a memory's line, to tell the model where the memory comes from. Most memories come from conversations, so we
 * only mention the other origins.
 */
const origins = { agent: ', saved by an application', observed: '', person: ', written by a person' } as const;
/**
 * We truncate longer texts. When we tried lengths from 300 to 1,000 characters, none of them got more of the evidence
 * into the block than 500 did (docs/benchmarks.md#evidence-per-token).
 */
const maxLineLength = 500;

/**
 * Why a memory was left out of the block.
 *
 * - `unsafe`: it reads like an instruction, or only consists of markup
 * - `near_duplicate`: it repeats a better or newer memory
 * - `limit`: the block is full
 * - `weak_match`: it matches much worse than the best memory
 */
export type OmissionReason = 'unsafe' | 'near_duplicate' | 'limit' | 'weak_match';

export interface RecallBlock {
  readonly block: string;
  readonly used: readonly RecalledMemory[];
  /** Maps the id of each memory that was left out to the reason. */
  readonly omitted: ReadonlyMap<string, OmissionReason>;
}

interface Line {
  readonly memory: RecalledMemory;
  readonly line: string;
  readonly terms: ReadonlySet<string>;
}

/**
 * Formats the block that recall inserts into a prompt. `memories` are in order, best first. If one of them doesn't fit
 * into the block, we skip it and try the next, which may be shorter.
 */
export function formatRecallBlock(memories: readonly RecalledMemory[], { maxMemories, maxSize, sizeOf }: RecallLimits): RecallBlock {
  const lines: Line[] = [];
  const omitted = new Map<string, OmissionReason>();
  let size = 0;
  for (const memory of memories) {
    const text = sanitizeLine(memory.text, maxLineLength);
    const terms = toTermSet(text);
    const line = `- ${text} (${memory.createdAt.toISOString().slice(0, 10)}${origins[memory.origin]})`;
    const similar = lines.findIndex((other) => isNearDuplicate(terms, other.terms));
    const replaced = lines[similar];
    const grownBy = sizeOf(line) - (replaced ? sizeOf(replaced.line) : 0);
    if (text === '') omitted.set(memory.id, 'unsafe');
    else if (replaced) {
      const isBetter = isNewerVersion({ memory, line, terms }, replaced) && size + grownBy <= maxSize;
      omitted.set(isBetter ? replaced.memory.id : memory.id, 'near_duplicate');
      if (!isBetter) continue;
      size += grownBy;
      lines[similar] = { memory, line, terms };
    } else if (lines.length === maxMemories || size + grownBy > maxSize) omitted.set(memory.id, 'limit');
    else {
      size += grownBy;
      lines.push({ memory, line, terms });
    }
  }
  const block = wrapRecalled(
    'recall',
    lines.map(({ line }) => line),
  );
  return { block, used: lines.map(({ memory }) => memory), omitted };
}

/**
 * Checks whether a near-duplicate is a newer version of a memory. If two long sentences only differ in a number, they
 * usually describe an earlier and a later state of the same thing. But if a person wrote or pinned the older one, a
 * text that nobody has reviewed doesn't replace it.
 */
function isNewerVersion({ memory, terms }: Line, older: Line): boolean {
  const isReviewed = (one: RecalledMemory): boolean => one.pinned || one.origin === 'person';
  if (isReviewed(older.memory) && !isReviewed(memory)) return false;
  return memory.createdAt > older.memory.createdAt && terms.symmetricDifference(older.terms).size > 0;
}

/**
 * Matches all invisible characters except for the zero-width joiner and non-joiner, which some scripts need inside
 * words.
 */
const invisibleCharacters = /(?![\u200c\u200d])\p{Default_Ignorable_Code_Point}/gu;

/**
 * How much of a text we read at first, as a multiple of the line's length. This is usually enough to fill the line, and
 * the less we read, the less time it takes to search it for injections.
 */
const lookahead = 4;

/**
 * If links and markup leave too little of that to fill the line, we read the whole text, unless it's longer than this.
 * Its length is measured after normalization, which turns some characters into several.
 */
const maxNormalizedLength = 8_000;

/**
 * Converts a text to a single line, without links, tags, Markdown, or brackets that could close the block. Returns an
 * empty string if the injection detector matches, which can happen if the memory was stored before we added the
 * pattern.
 */
export function sanitizeLine(text: string, maxLength: number): string {
  let read = text.slice(0, lookahead * maxLength).toWellFormed();
  let line = removeMarkup(read);
  if (read.length < text.length && line.length <= maxLength && limitMarks(text).normalize('NFKC').length <= maxNormalizedLength) {
    read = text.toWellFormed();
    line = removeMarkup(read);
  }
  if (findInjection(read) !== null) return '';
  if (line === '' || (read.length === text.length && line.length <= maxLength)) return line;
  return `${line.slice(0, maxLength).toWellFormed().trimEnd()}…`;
}

function removeMarkup(text: string): string {
  return text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .replace(invisibleCharacters, '')
    .replace(/!?\[([^\][]{0,500})\]\([^()]{0,4000}\)/g, '$1')
    .replace(/\b[a-z][a-z0-9+.-]{1,20}:\/\/\S+|\bwww\.\S+/gi, '(link)')
    .replace(/<[^<>]{0,500}>/g, ' ')
    .replace(/[[\]{}<>`*_#|\\]+/g, ' ')
    .replace(/ {2,}/g, ' ')
    .trim();
}

function toTermSet(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text]);
}

const roundingError = 1e-9;

/**
 * Two texts are near-duplicates if they have nine out of ten words in common. In a large block we compare thousands of
 * pairs, so we stop as soon as too many words differ, which for most pairs is after the second word.
 */
function isNearDuplicate(terms: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  // Texts with a and b words that have s words in common are near-duplicates if s / (a + b - s) >= 0.9, i.e. if s >=
  // 0.9 * (a + b) / 1.9.
  const minShared = (0.9 * (terms.size + other.size)) / 1.9 - roundingError;
  let missesLeft = Math.floor(terms.size - minShared);
  if (missesLeft < 0 || other.size < minShared) return false;
  for (const term of terms) {
    if (other.has(term)) continue;
    missesLeft -= 1;
    if (missesLeft < 0) return false;
  }
  return true;
}
