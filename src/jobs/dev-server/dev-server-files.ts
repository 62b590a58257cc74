/**
 * Files of the Temporal dev server in the data directory: `temporal.json` identifies the running server for the next start, and `id` is the
 * directory's stable id. The namespace is named after that id, so two clones on one machine never share one.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../core/error-messages.ts';
import { parseJson } from '../../core/json/narrow.ts';

const recordSchema = z.object({
  pid: z.number(),
  startTime: z.string(),
  address: z.string(),
  uiUrl: z.string(),
  namespace: z.string(),
});

/** Identifies the server's process, and says where it serves what. */
export type DevServerRecord = Readonly<z.output<typeof recordSchema>>;

/** Returns the data directory's id, 12 hexadecimal digits; creates it at the first call. */
export async function readOrCreateDataDirId(dataDir: string): Promise<string> {
  const file = join(dataDir, 'id');
  for (;;) {
    const id = (await readIfExists(file))?.trim();
    if (id !== undefined) {
      if (/^[0-9a-f]{12}$/.test(id)) return id;
      throw new Error(`${file} does not contain an id; move it away (the Temporal namespace of this directory is named after it)`);
    }
    try {
      await writeFile(file, `${randomBytes(6).toString('hex')}\n`, { mode: 0o600, flag: 'wx' });
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error; // Another process created it first; read that one.
    }
  }
}

/** Record of the last server. Null when it does not exist or is malformed: a start treats both alike. */
export async function readRecord(dataDir: string): Promise<DevServerRecord | null> {
  return recordSchema.safeParse(parseJson((await readIfExists(recordFile(dataDir))) ?? '')).data ?? null;
}

export async function writeRecord(dataDir: string, record: DevServerRecord): Promise<void> {
  const file = recordFile(dataDir);
  await writeFile(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file); // Atomic: a kill before the rename leaves the old record intact.
}

function recordFile(dataDir: string): string {
  return join(dataDir, 'temporal.json');
}

async function readIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
