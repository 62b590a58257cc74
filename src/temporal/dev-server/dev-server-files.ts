/**
 * Reads and writes the dev server's files in the data directory. The next start finds a running server through
 * `temporal.json`. The `id` file gives the directory a stable id. We derive the Temporal namespace from it, so that two
 * clones on one machine never share a namespace.
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

/** Identifies the server's process, with its addresses and namespace. */
export type DevServerRecord = Readonly<z.output<typeof recordSchema>>;

/** Returns the id of the data directory, which has 12 hexadecimal digits. Creates it on the first call. */
export async function readOrCreateDataDirId(dataDir: string): Promise<string> {
  const file = join(dataDir, 'id');
  for (;;) {
    const id = (await readIfExists(file))?.trim();
    if (id !== undefined) {
      if (/^[0-9a-f]{12}$/.test(id)) return id;
      throw new Error(
        `${file} does not contain a valid id. It names the Temporal namespace of this data directory: restore the file, or move it away to start with an empty namespace`,
      );
    }
    try {
      await writeFile(file, `${randomBytes(6).toString('hex')}\n`, { mode: 0o600, flag: 'wx' });
    } catch (error) {
      // Somebody else has just created the file. Use the id that it contains.
      if (errorCode(error) !== 'EEXIST') throw error;
    }
  }
}

/**
 * Returns the record of the last server. Returns null if there's no record or if it's malformed, because both mean that
 * we have to start a new server.
 */
export async function readRecord(dataDir: string): Promise<DevServerRecord | null> {
  return recordSchema.safeParse(parseJson((await readIfExists(recordFile(dataDir))) ?? '')).data ?? null;
}

export async function writeRecord(dataDir: string, record: DevServerRecord): Promise<void> {
  const file = recordFile(dataDir);
  await writeFile(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  // Renaming is atomic, so if we're killed before it, the old record is still intact.
  await rename(`${file}.new`, file);
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
