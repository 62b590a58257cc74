/**
 * Reads and writes the dev server's files in the data directory. `temporal.json` tells the next start how to find a
 * server that's still running. The `id` file gives the directory a stable id, from which we derive the Temporal
 * namespace. That way, two clones on the same machine never share one.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../core/error-messages.ts';
import { parseJson } from '../../core/json/parse.ts';

const recordSchema = z.object({
  pid: z.number(),
  startTime: z.string(),
  address: z.string(),
  uiUrl: z.string(),
  namespace: z.string(),
});

export type DevServerRecord = Readonly<z.output<typeof recordSchema>>;

/** Returns the id of the data directory, which has 12 hexadecimal digits. Creates it on the first call. */
export async function readOrCreateDataDirId(dataDir: string): Promise<string> {
  const file = join(dataDir, 'id');
  for (;;) {
    const id = (await readIfExists(file))?.trim();
    if (id !== undefined) {
      if (/^[0-9a-f]{12}$/.test(id)) return id;
      throw new Error(
        `${file} does not contain a valid id, but the Temporal namespace of this data directory is named after it; restore the file, or move it away to start with an empty namespace`,
      );
    }
    try {
      await writeFile(file, `${randomBytes(6).toString('hex')}\n`, { mode: 0o600, flag: 'wx' });
    } catch (error) {
      // If another process has created the file first, we use its id.
      if (errorCode(error) !== 'EEXIST') throw error;
    }
  }
}

/**
 * Returns the record of the last server. Returns null if it's missing or malformed, since we have to start a new server
 * in both cases.
 */
export async function readRecord(dataDir: string): Promise<DevServerRecord | null> {
  return recordSchema.safeParse(parseJson((await readIfExists(recordFile(dataDir))) ?? '')).data ?? null;
}

export async function writeRecord(dataDir: string, record: DevServerRecord): Promise<void> {
  const file = recordFile(dataDir);
  await writeFile(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  // Renaming is atomic. If this process is killed before, the old record is still intact.
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
