/**
 * Memories as lines of a prompt (lessons 37, 43): marked as data, of bounded length, without links and markup, each with where it comes from,
 * none that says what another has said.
 */
import { fenceRecalled } from '../../dialects/prompt/recalled-block.ts';
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
const longestLine = 500;
const longestBlock = 4_000;

/** Best first; `used` are those that became lines. */
export function writeRecalledBlock(found: readonly RecalledMemory[], most: number): { block: string; used: readonly RecalledMemory[] } {
  const used: RecalledMemory[] = [];
  const lines: string[] = [];
  const said: ReadonlySet<string>[] = [];
  let length = 0;
  for (const memory of found) {
    const text = plainLine(memory.text, longestLine);
    const words = wordsOf(text);
    if (text === '' || said.some((other) => saysTheSame(words, other))) continue;
    const line = `- ${text} (${origins[memory.origin]}, ${memory.createdAt.toISOString().slice(0, 10)})`;
    if (used.length === most || length + line.length > longestBlock) break;
    length += line.length;
    lines.push(line);
    used.push(memory);
    said.push(words);
  }
  return { block: fenceRecalled('recall', lines), used };
}

/** But for the joiners that some scripts need within words. */
const unseen = /(?![\u200c\u200d])\p{Default_Ignorable_Code_Point}/gu;

/**
 * One line of bare text: no addresses, no tags, no marks of Markdown, no brackets that could close the fence. Empty for what looks like an
 * instruction to a model: also what was stored before it looked so to us stays out of prompts.
 */
export function plainLine(text: string, longest: number): string {
  if (findInjection(text) !== null) return '';
  const bare = text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .replace(unseen, '')
    .replace(/!?\[([^\][]{0,500})\]\([^()]{0,2000}\)/g, '$1')
    .replace(/\b[a-z][a-z0-9+.-]{1,20}:\/\/\S+|\bwww\.\S+/gi, '(link)')
    .replace(/<[^<>]{0,500}>/g, ' ')
    .replace(/[[\]{}<>`*_#|\\]+/g, ' ')
    .replace(/ {2,}/g, ' ')
    .trim();
  return bare.length > longest ? `${bare.slice(0, longest).toWellFormed().trimEnd()}…` : bare;
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text]);
}

/** Nine words of ten are the same. */
function saysTheSame(words: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  let shared = 0;
  for (const word of words) if (other.has(word)) shared += 1;
  return shared >= 0.9 * (words.size + other.size - shared);
}
