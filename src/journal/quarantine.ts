/**
 * Where records go that the database refuses for what is in them: `<dataDir>/journal/quarantine/`, one file each, as they lay in the
 * journal, for a person to look at. Private like the journal itself: folder 0700, files 0600.
 */
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isUuid } from '../core/ids.ts';
import { isObject, parseJson } from '../core/json.ts';

export interface Quarantine {
  /** Keeps the bytes of a record; the same record again replaces its file. */
  keepRecord(callId: string | null, raw: Buffer): Promise<void>;
  /** Keeps a copy of a segment that cannot be read to its end. */
  keepSegment(journalId: string, segment: number, file: string): Promise<void>;
}

/** Erasure: deletes what holds a call of this project about one of these subjects (their SHA-256, hexadecimal). Returns how many files went. */
export async function removeQuarantined(dataDir: string, projectId: string, subjects: ReadonlySet<string>): Promise<number> {
  const folder = folderOf(dataDir);
  const names = await readdir(folder).catch((error: unknown) => {
    if (isMissing(error)) return []; // Nothing was ever kept.
    throw error;
  });
  let removed = 0;
  for (const name of names) {
    const text = await readFile(join(folder, name), 'utf8');
    if (!text.includes(projectId) || !namesSubject(text, subjects)) continue;
    await rm(join(folder, name), { force: true });
    removed += 1;
  }
  return removed;
}

/** Records are damaged or of another version, so they are searched as text. */
function namesSubject(text: string, subjects: ReadonlySet<string>): boolean {
  for (const [, json = ''] of text.matchAll(/"subject":("(?:[^"\\]|\\.)*")/g)) {
    const subject = parseJson(json);
    if (typeof subject === 'string' && subjects.has(createHash('sha256').update(subject, 'utf8').digest('hex'))) return true;
  }
  return false;
}

function isMissing(error: unknown): boolean {
  return isObject(error) && error.code === 'ENOENT';
}

function folderOf(dataDir: string): string {
  return join(dataDir, 'journal', 'quarantine');
}

export function createQuarantine(dataDir: string): Quarantine {
  const folder = folderOf(dataDir);
  const prepare = (): Promise<unknown> => mkdir(folder, { recursive: true, mode: 0o700 });
  return {
    async keepRecord(callId, raw) {
      await prepare();
      // An id is part of the record, so it may be what is wrong with it.
      const name = callId !== null && isUuid(callId) ? callId : createHash('sha256').update(raw).digest('hex');
      await writeFile(join(folder, `${name}.record`), raw, { mode: 0o600 });
    },
    async keepSegment(journalId, segment, file) {
      await prepare();
      // The copy has the mode of a segment, 0600.
      await copyFile(file, join(folder, `${journalId}-${segment}.segment`));
    },
  };
}
