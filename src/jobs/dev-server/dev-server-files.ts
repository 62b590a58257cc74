/**
 * What the Temporal dev server leaves in the data directory for the next start: who it is (`temporal.json`), and the directory's own
 * stable id (`id`), which names the namespace so that two clones on one machine never meet.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../../core/error-messages.ts';
import { isObject, parseJson } from '../../core/json/narrow.ts';
import type { ProcessIdentity } from './processes.ts';

export interface DevServerRecord extends ProcessIdentity {
  readonly address: string;
  readonly uiUrl: string;
  readonly namespace: string;
}

/** The data directory's id: 12 hexadecimal digits, made at the first call. */
export async function readOrCreateDataDirId(dataDir: string): Promise<string> {
  const file = join(dataDir, 'id');
  for (;;) {
    const id = (await readIfExists(file))?.trim();
    if (id !== undefined) {
      if (/^[0-9a-f]{12}$/.test(id)) return id;
      throw new Error(`${file} holds no id; move it away (the Temporal namespace of this directory is named after it)`);
    }
    try {
      await writeFile(file, `${randomBytes(6).toString('hex')}\n`, { mode: 0o600, flag: 'wx' });
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error; // Another process was faster: its id counts.
    }
  }
}

/** The record of the last server; null when there is none or it cannot be read, which is the same to a start. */
export async function readRecord(dataDir: string): Promise<DevServerRecord | null> {
  const value = parseJson((await readIfExists(recordFile(dataDir))) ?? '');
  if (!isObject(value)) return null;
  const { pid, startTime, address, uiUrl, namespace } = value;
  if (typeof pid !== 'number' || typeof startTime !== 'string' || typeof address !== 'string') return null;
  if (typeof uiUrl !== 'string' || typeof namespace !== 'string') return null;
  return { pid, startTime, address, uiUrl, namespace };
}

export async function writeRecord(dataDir: string, record: DevServerRecord): Promise<void> {
  const file = recordFile(dataDir);
  await writeFile(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file); // Whole or not at all: a kill between the two leaves the old record.
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
