/**
 * Memories as lines of a prompt (lessons 37, 43): marked as data, of bounded length, without links and markup, each with where it comes from,
 * none that says what another has said.
 */
import { wrapRecalled } from '../../dialects/prompt/recalled-block.ts';
import { findInjection } from '../../guardrails/injection.ts';

/** A memory as far as it is recalled. */
export interface RecalledMemory {
  readonly id: string;
  readonly text: string;
  readonly origin: 'agent' | 'observed' | 'person';
  readonly subject: string | null;
  readonly createdAt: Date;
}

const origins = { agent: 'saved by an application', observed: 'read in a conversation', person: 'written by a person' } as const;
const maxLineLength = 500;
const maxBlockLength = 4_000;

/** Best first; `used` are those that became lines. */
export function formatRecallBlock(
  memories: readonly RecalledMemory[],
  maxMemories: number,
): { block: string; used: readonly RecalledMemory[] } {
  const used: RecalledMemory[] = [];
  const lines: string[] = [];
  const seen: ReadonlySet<string>[] = [];
  let length = 0;
  for (const memory of memories) {
    const text = sanitizeLine(memory.text, maxLineLength);
    const terms = toTermSet(text);
    if (text === '' || seen.some((other) => isNearDuplicate(terms, other))) continue;
    const line = `- ${text} (${origins[memory.origin]}, ${memory.createdAt.toISOString().slice(0, 10)})`;
    if (used.length === maxMemories || length + line.length > maxBlockLength) break;
    length += line.length;
    lines.push(line);
    used.push(memory);
    seen.push(terms);
  }
  return { block: wrapRecalled('recall', lines), used };
}

/** But for the joiners that some scripts need within words. */
const invisibleCharacters = /(?![\u200c\u200d])\p{Default_Ignorable_Code_Point}/gu;

/**
 * One line of bare text: no addresses, no tags, no marks of Markdown, no brackets that could close the fence. Empty for what looks like an
 * instruction to a model: also what was stored before it looked so to us stays out of prompts.
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

/** Nine words of ten are the same. */
function isNearDuplicate(terms: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  let shared = 0;
  for (const term of terms) if (other.has(term)) shared += 1;
  return shared >= 0.9 * (terms.size + other.size - shared);
}
