/**
 * Implements `gateway memory export` and `gateway memory import`. We stream the files instead of loading them into
 * memory, so they can have any length.
 */
import { open, rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { errorMessage } from '../core/error-messages.ts';
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';
import { CommandError, type Invocation } from './command.ts';
import { formatTable } from './table.ts';

const team = '/provision/teams/{project}';

/**
 * Exports to standard output or a file. A file has a temporary name until the export is complete, so that nobody
 * mistakes a truncated file for a complete one. Only its owner can read it.
 */
export async function exportMemory({ download, options, output, warn }: Invocation): Promise<JsonObject> {
  const file = typeof options.output === 'string' ? options.output : null;
  if (file === null && options.json === true)
    throw new CommandError("--json requires --output, because standard output can't contain both the export and the JSON");
  const counter = createCounter(download(`get ${team}/memory/export`));
  if (file === null) {
    if (output.stream) await pipeline(Readable.from(counter.chunks), output.stream, { end: false });
    else for await (const chunk of counter.chunks) output.write(Buffer.from(chunk).toString());
    warn(`Exported ${counter.records()} records.`);
    return {};
  }
  const partial = `${file}.partial`;
  try {
    const opened = await open(partial, 'w', 0o600);
    await pipeline(Readable.from(counter.chunks), opened.createWriteStream({ flush: true }));
    await rename(partial, file);
  } catch (cause) {
    await rm(partial, { force: true });
    if (cause instanceof CommandError) throw cause;
    throw new CommandError(`cannot write ${file}: ${errorMessage(cause)}`, null, cause);
  }
  return { object: 'memory.export', file, records: counter.records() };
}

export function formatMemoryExport({ file, records }: JsonObject): string {
  return file === undefined ? '' : `Exported ${String(records)} records to ${String(file)}.\n`;
}

/**
 * Counts the records of an export or import as they pass through. Every line is a record except the first and the last.
 */
function createCounter(chunks: AsyncIterable<Uint8Array>) {
  let lines = 0;
  async function* counted(): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of chunks) {
      for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, at + 1)) lines += 1;
      yield chunk;
    }
  }
  return { chunks: counted(), records: (): number => Math.max(0, lines - 2) };
}

export async function importMemory({ upload, options }: Invocation): Promise<JsonObject> {
  const name = typeof options.input === 'string' ? options.input : undefined;
  const unreadable = (cause: unknown): never => {
    throw new CommandError(`cannot read ${name ?? 'standard input'}: ${errorMessage(cause)}`, null, cause);
  };
  const input = name === undefined ? process.stdin : (await open(name).catch(unreadable)).createReadStream();
  async function* chunks(): AsyncGenerator<Uint8Array, void> {
    try {
      for await (const chunk of input) if (Buffer.isBuffer(chunk)) yield chunk;
    } catch (cause) {
      unreadable(cause);
    }
  }
  return upload(`post ${team}/memory/import`, chunks());
}

const maxShownRefusals = 20;

export function formatMemoryImport({ records, refusals, dry_run }: JsonObject): string {
  const rows = Object.entries(asObject(records)).map(([type, counts]) => {
    const { added, present, refused } = asObject(counts);
    return [type, added, present, refused];
  });
  const reasons = asArray(refusals).map(asObject);
  const refused = rows.reduce((sum, row) => sum + Number(row[3]), 0);
  const shown = reasons
    .slice(0, maxShownRefusals)
    .map(({ line, type, reason }) => `line ${String(line)} (${String(type)}): ${String(reason)}\n`);
  return [
    dry_run === true ? 'Nothing was written.\n' : '',
    formatTable(['RECORD', dry_run === true ? 'TO ADD' : 'ADDED', 'PRESENT', 'REFUSED'], rows),
    ...shown,
    refused > shown.length ? `and ${refused - shown.length} more refused\n` : '',
    reasons.some(({ reason }) => reason === 'the subject was erased')
      ? 'To import the erased records as well, add --restore-erased.\n'
      : '',
  ].join('');
}
