/** Reads an export and checks that the counts in its last line match its records. */
import type { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import { parseEntry, parseRecord } from './foreign-formats.ts';
import { formatName, formatVersion, header, line } from './format.ts';
import type { OpenConversation } from './import-conversations.ts';
import { type Entry, lineError, readLines } from './read-entries.ts';

export interface ExportedLine {
  readonly line: number;
  /** How many characters the line takes up in the file. */
  readonly length: number;
  readonly record: z.output<typeof line>;
  /** The conversation to which this record belongs, if it's a conversation or a message. Null for all other records. */
  readonly open: OpenConversation | null;
}

/** Throws `bad_request` if the header is missing or invalid. */
export async function openExport(chunks: AsyncIterable<Uint8Array>) {
  const entries = readLines(chunks);
  const first = await entries.next();
  if (first.done === true) throw gatewayError('bad_request', { message: 'the file is empty' });
  return {
    header: readHeader(first.value),
    /** Throws `bad_request` if the file is truncated or a line is invalid. The message names the invalid line. */
    records: () => readRecords(entries),
  };
}

function readHeader(entry: Entry): z.output<typeof header> {
  const value = parseEntry(entry);
  if (!isObject(value) || value.format !== formatName)
    throw lineError(entry.line, 'this is not the header of an export; if the file comes from another program, set its format');
  const parsed = parseRecord(header, value, entry);
  if (parsed.version < 1 || parsed.version > formatVersion)
    throw lineError(entry.line, `this gateway cannot import version ${parsed.version} of the format, only versions 1 to ${formatVersion}`);
  return parsed;
}

async function* readRecords(entries: AsyncIterable<Entry>): AsyncGenerator<ExportedLine, void> {
  const counts = new Map<string, number>();
  let open: OpenConversation | null = null;
  let hasEnded = false;
  for await (const entry of entries) {
    if (hasEnded) throw lineError(entry.line, 'nothing may follow the last line of the export');
    const record = parseRecord(line, parseEntry(entry), entry);
    if (record.type === 'end') {
      checkCounts(record.records, counts, entry.line);
      hasEnded = true;
    } else counts.set(record.type, (counts.get(record.type) ?? 0) + 1);
    if (record.type === 'conversation') open = { record: { ...record, line: entry.line }, state: null };
    else if (record.type !== 'message') open = null;
    else if (record.conversation !== open?.record.id)
      throw lineError(entry.line, 'conversation: must be the id of the conversation that this message follows');
    yield { line: entry.line, length: entry.text.length, record, open };
  }
  if (!hasEnded)
    throw gatewayError('bad_request', {
      message: 'the file is truncated, because its last line is missing. The lines before that were imported',
    });
}

function checkCounts(expected: Readonly<Record<string, number>>, counts: ReadonlyMap<string, number>, line: number): void {
  for (const type of new Set([...Object.keys(expected), ...counts.keys()]))
    if ((expected[type] ?? 0) !== (counts.get(type) ?? 0))
      throw lineError(
        line,
        `the export had ${expected[type] ?? 0} records of type ${type}, but the file contains ${counts.get(type) ?? 0}`,
      );
}
