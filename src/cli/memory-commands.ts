/** `gateway memory import`: sends a file of any length to the service while it is read. */
import { open } from 'node:fs/promises';
import { errorMessage } from '../core/error-messages.ts';
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';
import type { Invocation } from './command.ts';
import { textOf, toQuery } from './options.ts';
import { CommandError } from './service-client.ts';
import { formatTable } from './table.ts';

const team = '/provision/teams/{project}';

export async function importMemory({ upload, values, members }: Invocation): Promise<JsonObject> {
  const { project: _, ...query } = members;
  const name = textOf(values, 'input');
  const unreadable = (cause: unknown): never => {
    throw new CommandError(`${name ?? 'standard input'} cannot be read: ${errorMessage(cause)}`, null, cause);
  };
  const input = name === undefined ? process.stdin : (await open(name).catch(unreadable)).createReadStream();
  async function* chunks(): AsyncGenerator<Uint8Array, void> {
    try {
      for await (const chunk of input) if (Buffer.isBuffer(chunk)) yield chunk;
    } catch (cause) {
      unreadable(cause);
    }
  }
  return upload(`post ${team}/memory/import${toQuery(query)}`, chunks());
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
  ].join('');
}
