/** Formats memories as lines of a prompt: marked as data, of bounded length, without links and markup, with their origin, without duplicates. */
import { wrapRecalled } from '../../dialects/prompt/recalled-block.ts';
import { findInjection } from '../../guardrails/injection.ts';
import type { Item } from '../records/item-record.ts';

/** The fields of a memory that recall uses. */
export type RecalledMemory = Pick<Item, 'id' | 'text' | 'origin' | 'subject' | 'createdAt'>;

const origins = { agent: 'saved by an application', observed: 'read in a conversation', person: 'written by a person' } as const;
const maxLineLength = 500;
const maxBlockLength = 4_000;

/** Why a memory became no line: it reads like an instruction or has no text but markup, it repeats a better one, or the block is full. */
export type OmissionReason = 'unsafe' | 'near_duplicate' | 'limit';

export interface RecallBlock {
  readonly block: string;
  /** The memories that became lines, best first. */
  readonly used: readonly RecalledMemory[];
  /** The others, by id. */
  readonly omitted: ReadonlyMap<string, OmissionReason>;
}

/** `memories` is sorted best first. */
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

/** Except the joiners that some scripts need inside a word. */
const invisibleCharacters = /(?![\u200c\u200d])\p{Default_Ignorable_Code_Point}/gu;

/**
 * One line of plain text without addresses, tags, Markdown or the brackets that could close the block. Empty for text that the injection
 * detector matches, including memories stored before it knew the pattern.
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

/** Nine of ten terms are shared. */
function isNearDuplicate(terms: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  let shared = 0;
  for (const term of terms) if (other.has(term)) shared += 1;
  return shared >= 0.9 * (terms.size + other.size - shared);
}
