/**
 * Where records go that the database refuses for what is in them: `<dataDir>/journal/quarantine/`, one file each, as they lay in the
 * journal, for a person to look at. Private like the journal itself: folder 0700, files 0600.
 */
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isUuid } from '../core/ids.ts';
import { isObject, parseJson } from '../core/json/narrow.ts';

/** A call that names a subject, as it was found in the text of a record. */
export interface SubjectCall {
  readonly projectId: string;
  readonly subject: string;
  readonly startedAt: number;
}

/** Whether one of them is from before an erasure of its subject: what holds it is not kept. May fail: then nothing is kept yet. */
export type IsErased = (calls: readonly SubjectCall[]) => Promise<boolean>;

export interface Quarantine {
  /** Keeps the bytes of a record; the same record again replaces its file. Throws what `IsErased` throws. */
  addRecord(callId: string | null, raw: Buffer): Promise<void>;
  /** Keeps a copy of a segment that cannot be read to its end. */
  addSegment(journalId: string, segment: number, file: string): Promise<void>;
}

/** Erasure: deletes what holds a call of this project about one of these subjects (their SHA-256, hexadecimal). Returns how many files went. */
export async function deleteQuarantined(dataDir: string, projectId: string, subjects: ReadonlySet<string>): Promise<number> {
  const folder = quarantineFolder(dataDir);
  const names = await readdir(folder).catch((error: unknown) => {
    if (isNotFound(error)) return []; // Nothing was ever kept.
    throw error;
  });
  let deleted = 0;
  for (const name of names) {
    const text = await readFile(join(folder, name), 'utf8');
    if (!text.includes(projectId) || !namesSubject(text, subjects)) continue;
    await rm(join(folder, name), { force: true });
    deleted += 1;
  }
  return deleted;
}

function namesSubject(text: string, subjects: ReadonlySet<string>): boolean {
  return findSubjects(text).some(({ subject }) => subjects.has(createHash('sha256').update(subject, 'utf8').digest('hex')));
}

/** Records are damaged or of another version, so they are searched as text. */
function findSubjects(text: string): { readonly subject: string; readonly at: number }[] {
  return Array.from(text.matchAll(/"subject":("(?:[^"\\]|\\.)*")/g), ({ 1: json = '', index }) => {
    const subject = parseJson(json);
    return typeof subject === 'string' ? [{ subject, at: index }] : [];
  }).flat();
}

/** Project and beginning stand before the subject in a call's facts. Where a beginning is not to be read, the call is as old as any. */
function findCalls(text: string): SubjectCall[] {
  return findSubjects(text).flatMap(({ subject, at }) => {
    const projectId = /^"projectId":"([0-9a-f-]{36})"/.exec(text.slice(text.lastIndexOf('"projectId":', at)))?.[1];
    const startedAt = Number(/^"startedAt":(\d{1,16})/.exec(text.slice(text.lastIndexOf('"startedAt":', at)))?.[1] ?? 0);
    return projectId !== undefined && isUuid(projectId) ? [{ projectId, subject, startedAt }] : [];
  });
}

function isNotFound(error: unknown): boolean {
  return isObject(error) && error.code === 'ENOENT';
}

function quarantineFolder(dataDir: string): string {
  return join(dataDir, 'journal', 'quarantine');
}

export function createQuarantine(dataDir: string, isErased: IsErased = async () => false): Quarantine {
  const folder = quarantineFolder(dataDir);
  const ensureFolder = (): Promise<unknown> => mkdir(folder, { recursive: true, mode: 0o700 });
  const isAllowed = async (text: string): Promise<boolean> => {
    const calls = findCalls(text);
    return calls.length === 0 || !(await isErased(calls));
  };
  return {
    async addRecord(callId, raw) {
      if (!(await isAllowed(raw.toString('utf8')))) return;
      await ensureFolder();
      // An id is part of the record, so it may be what is wrong with it.
      const name = callId !== null && isUuid(callId) ? callId : createHash('sha256').update(raw).digest('hex');
      await writeFile(join(folder, `${name}.record`), raw, { mode: 0o600 });
    },
    async addSegment(journalId, segment, file) {
      if (!(await isAllowed(await readFile(file, 'utf8')))) return;
      await ensureFolder();
      // The copy has the mode of a segment, 0600.
      await copyFile(file, join(folder, `${journalId}-${segment}.segment`));
    },
  };
}
