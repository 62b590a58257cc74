/**
 * Reads memories that other programs have exported. We support mem0's `get_all()` and plain lists
 * (docs/memory-export.md#other-formats).
 *
 * The entries don't have ids of this gateway, so we recognize entries that were imported before by their content. An
 * entry is already present if the project has a memory with the same text, the same subject and, if the entry has a
 * time, the same time.
 */

import { z } from 'zod';
import { formatIssues } from '../../core/error-messages.ts';
import { isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { parseWithIssues } from '../../core/parse-or-bad-request.ts';
import { importance, itemText, optional, optionalSubject as subject } from '../items/item-schemas.ts';
import { itemKinds } from '../records/item-record.ts';
import { isStorableTime, unstorableTime } from './format.ts';
import { type Entry, lineError, peekStart, readElements, readLines } from './read-entries.ts';

export type ForeignFormat = 'mem0' | 'list';

export interface ForeignItem extends Omit<z.output<typeof listEntry>, 'created_at'> {
  readonly line: number;
  /** How many characters the entry takes up in the file. */
  readonly length: number;
  /** In RFC 3339, or null for the time of the import. */
  readonly createdAt: string | null;
  readonly updatedAt: string | null;
}

/** Accepts a time or a date. Times without an offset are taken as UTC, and a date as midnight in UTC. */
const time = z
  .union([z.iso.datetime({ offset: true, local: true }), z.iso.date()], {
    error: 'must be a date, or a time in RFC 3339, for example 2027-01-01T00:00:00Z',
  })
  .transform((text) =>
    text.includes('T') ? text.replace(/(?<=\.\d{6})\d+/, '').replace(/(?<![Zz]|[+-]\d\d:\d\d)$/, 'Z') : `${text}T00:00:00Z`,
  )
  .refine(isStorableTime, unstorableTime);

const listEntry = z.object({
  text: itemText,
  subject,
  kind: z.enum(itemKinds).default('fact'),
  importance: importance.default(3),
  pinned: z.boolean().default(false),
  created_at: optional(time),
});

/**
 * An entry of a mem0 export. We ignore its agent and run ids. An entry without a user becomes a memory of the whole
 * project.
 */
const mem0Entry = z.object({ memory: itemText, user_id: subject, created_at: optional(time), updated_at: optional(time) });

/**
 * The beginning of mem0's `results`. On the hosted platform, the number of memories and the URLs of other pages come
 * first.
 */
const resultsArray = /^\{(?:\s*"\w+"\s*:\s*(?:null|\d+|"[^"\\]*")\s*,)*\s*"results"\s*:\s*\[/;

/** Yields the memories in the file. Throws `bad_request` with the number of the line or element if one is invalid. */
export async function* readForeignItems(format: ForeignFormat, bytes: AsyncIterable<Uint8Array>): AsyncGenerator<ForeignItem, void> {
  const { start, chunks } = await peekStart(bytes);
  const isArray = /^\[\s*["{\]]/.test(start) || resultsArray.test(start);
  const isPlainText = format === 'list' && !isArray && !start.startsWith('{');
  for await (const entry of isArray ? readElements(chunks) : readLines(chunks)) {
    const value = isPlainText ? entry.text : parseEntry(entry);
    yield format === 'mem0' ? readMem0Item(value, entry) : readListItem(value, entry);
  }
}

export function parseEntry({ line, text }: Entry): unknown {
  const value = parseJson(text);
  if (value === undefined) throw lineError(line, 'not valid JSON');
  return value;
}

/** Validates a record. Throws a `bad_request` that lists everything that's wrong with it. */
export function parseRecord<Schema extends z.ZodType>(schema: Schema, value: unknown, { line }: Entry): z.output<Schema> {
  const parsed = parseWithIssues(schema, value);
  if (parsed.success) return parsed.data;
  throw lineError(line, formatIssues(parsed.issues));
}

function readListItem(value: unknown, entry: Entry): ForeignItem {
  const { created_at: createdAt, ...item } = parseRecord(listEntry, typeof value === 'string' ? { text: value } : value, entry);
  return { ...item, line: entry.line, length: entry.text.length, createdAt, updatedAt: createdAt };
}

function readMem0Item(value: unknown, entry: Entry): ForeignItem {
  if (isObject(value) && 'results' in value) throw lineError(entry.line, 'results: must be the first array in the object');
  const { memory: text, user_id, created_at: createdAt, updated_at } = parseRecord(mem0Entry, value, entry);
  const own = { kind: 'fact', importance: 3, pinned: false } as const;
  return { ...own, line: entry.line, length: entry.text.length, text, subject: user_id, createdAt, updatedAt: updated_at ?? createdAt };
}
