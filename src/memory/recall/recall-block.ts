/**
 * Formats memories as lines for a prompt. The block is marked as data and has a limited length. Lines don't contain
 * links or markup. They say when the memory was written, and where it comes from if that isn't a conversation.
 * Duplicates are left out.
 */
import { wrapRecalled } from '../../dialects/prompt/recalled-block.ts';
import { findInjection } from '../../guardrails/injection.ts';
import type { Item } from '../records/item-record.ts';

/** The fields of a memory that recall uses. */
export type RecalledMemory = Pick<Item, 'id' | 'text' | 'origin' | 'subject' | 'pinned' | 'createdAt'>;

/** Size limits for the block that recall inserts. */
export interface RecallLimits {
  readonly maxMemories: number;
  /** The maximum size of all lines together, as measured by `sizeOf`. */
  readonly maxSize: number;
  readonly sizeOf: (line: string) => number;
}

/** An estimate of how many bytes a token has. We use the same estimate everywhere. */
const bytesPerToken = 4;
/** For projects without a budget. `maxSize` is in characters here. */
const defaultLimits: RecallLimits = { maxMemories: 10, maxSize: 4_000, sizeOf: (line) => line.length };
/** Only large budgets get to this limit. */
const maxMemoriesInBudget = 100;

/**
 * Returns the limits for a budget in tokens. Without a budget, the block has up to ten memories. With a budget, it has
 * as many as fit together with its frame.
 */
export function toRecallLimits(budgetTokens: number | null): RecallLimits {
  if (budgetTokens === null) return defaultLimits;
  const maxSize = budgetTokens * bytesPerToken - Buffer.byteLength(wrapRecalled('recall', []));
  // 1 byte more for the line break
  return { maxMemories: maxMemoriesInBudget, maxSize, sizeOf: (line) => Buffer.byteLength(line) + 1 };
}

/** Recalled lines don't mention conversations as their origin, because nearly all memories come from there. */
const origins = { agent: ', saved by an application', observed: '', person: ', written by a person' } as const;
/**
 * Longer texts are cut. We tried lengths from 300 to 1,000 characters, and with 500 the block had as much of the
 * evidence as with any other (docs/benchmarks.md#evidence-per-token).
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
  /** What's in the block, best first. */
  readonly used: readonly RecalledMemory[];
  /** Maps the ids of memories that were left out to the reason. */
  readonly omitted: ReadonlyMap<string, OmissionReason>;
}

interface Line {
  readonly memory: RecalledMemory;
  readonly line: string;
  readonly terms: ReadonlySet<string>;
}

/**
 * Formats the block that recall inserts into a prompt. `memories` have to be sorted best first. We skip those that
 * don't fit, so that shorter ones after them still can.
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
 * Returns true if a near-duplicate is the newer version of a memory. Two long sentences that only differ in a number
 * usually describe the old and the new state of the same thing. If a person wrote or pinned the older one, it isn't
 * replaced by a text that nobody has reviewed.
 */
function isNewerVersion({ memory, terms }: Line, older: Line): boolean {
  const isReviewed = (one: RecalledMemory): boolean => one.pinned || one.origin === 'person';
  if (isReviewed(older.memory) && !isReviewed(memory)) return false;
  return memory.createdAt > older.memory.createdAt && terms.symmetricDifference(older.terms).size > 0;
}

/** The lookahead keeps the two joiners, which some scripts need inside of words. */
const invisibleCharacters = /(?![\u200c\u200d])\p{Default_Ignorable_Code_Point}/gu;

/**
 * Returns a single line of plain text without links, tags, Markdown, or brackets that could close the block. Empty if
 * the injection detector matches, which can happen for memories that were stored before it knew the pattern.
 */
export function sanitizeLine(text: string, maxLength: number): string {
  if (findInjection(text) !== null) return '';
  const bare = text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .replace(invisibleCharacters, '')
    .replace(/!?\[([^\][]{0,500})\]\([^()]{0,2000}\)/g, '$1')
    .replace(/\b[a-z][a-z0-9+.-]{1,20}:\/\/\S+|\bwww\.\S+/gi, '(link)')
    .replace(/<[^<>]{0,500}>/g, ' ')
    .replace(/[[\]{}<>`*_#|\\]+/g, ' ')
    .replace(/ {2,}/g, ' ')
    .trim();
  return bare.length > maxLength ? `${bare.slice(0, maxLength).toWellFormed().trimEnd()}…` : bare;
}

function toTermSet(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text]);
}

const roundingError = 1e-9;

/**
 * Texts are near-duplicates if they share nine out of ten words. A large block compares thousands of pairs, so we stop
 * as soon as too many words differ. For most pairs that's after the second word.
 */
function isNearDuplicate(terms: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  // With a and b words in the texts and s shared ones, this requires s >= 0.9 * (a + b - s).
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
