/**
 * Formats memories as lines of a prompt. The block is marked as data and has a limited length. Its lines have no links
 * or markup, state the origin of the memory, and don't contain duplicates.
 */
import { wrapRecalled } from '../../dialects/prompt/recalled-block.ts';
import { findInjection } from '../../guardrails/injection.ts';
import type { Item } from '../records/item-record.ts';

/** The fields of a memory that recall uses. */
export type RecalledMemory = Pick<Item, 'id' | 'text' | 'origin' | 'subject' | 'createdAt'>;

const origins = { agent: 'saved by an application', observed: 'read in a conversation', person: 'written by a person' } as const;
const maxLineLength = 500;
const maxBlockLength = 4_000;

/**
 * Why a memory was left out of the block: it reads like an instruction or consists of nothing but markup, it repeats a
 * better one, or the block is full.
 */
export type OmissionReason = 'unsafe' | 'near_duplicate' | 'limit';

export interface RecallBlock {
  readonly block: string;
  /** The memories in the block, best first. */
  readonly used: readonly RecalledMemory[];
  /** The memories that were left out, by id. */
  readonly omitted: ReadonlyMap<string, OmissionReason>;
}

/** `memories` must be sorted best first. */
export function formatRecallBlock(memories: readonly RecalledMemory[], maxMemories: number): RecallBlock {
  const used: RecalledMemory[] = [];
  const omitted = new Map<string, OmissionReason>();
  const lines: string[] = [];
  const seen: ReadonlySet<string>[] = [];
  let length = 0;
  for (const [position, memory] of memories.entries()) {
    const text = sanitizeLine(memory.text, maxLineLength);
    const terms = toTermSet(text);
    const line = `- ${text} (${origins[memory.origin]}, ${memory.createdAt.toISOString().slice(0, 10)})`;
    if (text === '') omitted.set(memory.id, 'unsafe');
    else if (seen.some((other) => isNearDuplicate(terms, other))) omitted.set(memory.id, 'near_duplicate');
    else if (used.length === maxMemories || length + line.length > maxBlockLength) {
      for (const { id } of memories.slice(position)) omitted.set(id, 'limit');
      break;
    } else {
      length += line.length;
      lines.push(line);
      used.push(memory);
      seen.push(terms);
    }
  }
  return { block: wrapRecalled('recall', lines), used, omitted };
}

/** Doesn't match the joiners that some scripts need inside a word. */
const invisibleCharacters = /(?![\u200c\u200d])\p{Default_Ignorable_Code_Point}/gu;

/**
 * Returns a single line of plain text without links, tags, Markdown, or brackets that could close the block. Returns an
 * empty string if the injection detector matches, which may happen for memories that were stored before it knew the
 * pattern.
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

/** Texts are near-duplicates if they share nine out of ten words. */
function isNearDuplicate(terms: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  let shared = 0;
  for (const term of terms) if (other.has(term)) shared += 1;
  return shared >= 0.9 * (terms.size + other.size - shared);
}
