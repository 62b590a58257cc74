/**
 * The quarantine keeps records that the database rejects because of their data, so that they can be inspected. Each is
 * a file in `<dataDir>/journal/quarantine/` in the format of the journal. Like the journal, the folder has mode 0700
 * and its files have mode 0600.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../core/error-messages.ts';
import { isUuid } from '../core/ids.ts';
import { parseJson } from '../core/json/narrow.ts';
import { hashSubjectHex } from '../core/subject.ts';
import { type JournalFileSystem, nodeFileSystem } from './file-system.ts';
import { decodeFrames } from './frame.ts';

/** A call with a subject that we found in the text of a record. */
export interface SubjectCall {
  readonly projectId: string;
  readonly subject: string;
  readonly startedAt: number;
}

/**
 * Reports whether the subject of one of the calls was erased after the call began. We don't keep a record with such a
 * call. If this rejects, we try to keep the record later.
 */
export type IsErased = (calls: readonly SubjectCall[]) => Promise<boolean>;

export interface Quarantine {
  /**
   * Writes the bytes of a record to a file, replacing an earlier file of the same record. Returns false if we aren't
   * allowed to keep it. Rejects if `IsErased` does.
   */
  addRecord(callId: string | null, raw: Buffer): Promise<boolean>;
  /** Copies a segment that we can't read to its end. The result and errors are the same as for `addRecord`. */
  addSegment(journalId: string, segment: number, file: string): Promise<boolean>;
}

/**
 * Deletes the files that contain a call of this project about one of these subjects (hexadecimal SHA-256), for an
 * erasure. Returns the number of files.
 */
export async function deleteQuarantined(dataDir: string, projectId: string, subjects: ReadonlySet<string>): Promise<number> {
  const folder = quarantineFolder(dataDir);
  let deleted = 0;
  for (const name of await listNames(folder)) {
    const bytes = await orNullWhenMissing(readFile(join(folder, name)));
    const text = bytes === null ? '' : textOf(bytes);
    if (!text.includes(projectId) || !findSubjects(text).some(({ subject }) => subjects.has(hashSubjectHex(subject)))) continue;
    await rm(join(folder, name), { force: true });
    deleted += 1;
  }
  return deleted;
}

/** Describes a file of the quarantine without its text. */
export interface QuarantinedFile {
  readonly name: string;
  readonly bytes: number;
  readonly quarantinedAt: Date;
  /** The calls that we could read. A segment has several. `startedAt` is null if we couldn't read it. */
  readonly calls: readonly { readonly projectId: string; readonly startedAt: number | null }[];
}

/** Oldest first. */
export async function listQuarantined(dataDir: string): Promise<QuarantinedFile[]> {
  return (await readFiles(dataDir)).map(({ file }) => file);
}

/** `isComplete` tells whether we could read every record of the file. */
async function readFiles(dataDir: string): Promise<{ readonly file: QuarantinedFile; readonly isComplete: boolean }[]> {
  const folder = quarantineFolder(dataDir);
  const files: { file: QuarantinedFile; isComplete: boolean }[] = [];
  for (const name of await listNames(folder)) {
    const file = join(folder, name);
    // Another process on this host may delete the file in the meantime.
    const found = await orNullWhenMissing(Promise.all([readFile(file), stat(file)]));
    if (!found) continue;
    const [bytes, { size, mtime }] = found;
    const { text, rest } = readRecords(bytes);
    files.push({ file: { name, bytes: size, quarantinedAt: mtime, calls: findProjects(text) }, isComplete: rest.length === 0 });
  }
  return files.toSorted((one, other) => one.file.quarantinedAt.getTime() - other.file.quarantinedAt.getTime());
}

export async function countQuarantined(dataDir: string): Promise<number> {
  return (await listNames(quarantineFolder(dataDir))).length;
}

/**
 * Returns what the gateway wrote about the calls of a file, i.e. the JSON of the records, in which callers' texts are
 * escaped. We leave out request bodies because they could mention any project and time. `rest` contains the bytes in
 * which we can't find any record.
 */
function readRecords(bytes: Buffer): { readonly text: string; readonly rest: Buffer } {
  const { frames, usedBytes } = decodeFrames(bytes);
  return { text: frames.map(({ meta }) => meta.toString('utf8')).join('\n'), rest: bytes.subarray(usedBytes) };
}

/** Returns all text of a file for erasures, which must not miss any subject. */
function textOf(bytes: Buffer): string {
  const { text, rest } = readRecords(bytes);
  return text + rest.toString('utf8');
}

/**
 * Deletes the files with a call that's older than its project's retention period. If we can't read all of a file, or
 * find no project in it, the shortest period applies. Returns the number of files.
 */
export async function deleteExpired(dataDir: string, periods: readonly { projectId: string; before: Date }[]): Promise<number> {
  if (periods.length === 0) return 0;
  const beforeOf = new Map(periods.map(({ projectId, before }) => [projectId, before.getTime()]));
  const shortest = Math.max(...beforeOf.values());
  let deleted = 0;
  for (const { file, isComplete } of await readFiles(dataDir)) {
    const { name, quarantinedAt, calls } = file;
    const isOfAnyProject = !isComplete || calls.length === 0;
    const isExpired =
      (isOfAnyProject && quarantinedAt.getTime() < shortest) ||
      calls.some(({ projectId, startedAt }) => (startedAt ?? quarantinedAt.getTime()) < (beforeOf.get(projectId) ?? 0));
    if (!isExpired) continue;
    await rm(join(quarantineFolder(dataDir), name), { force: true });
    deleted += 1;
  }
  return deleted;
}

async function listNames(folder: string): Promise<string[]> {
  return (await orNullWhenMissing(readdir(folder))) ?? [];
}

async function orNullWhenMissing<Result>(reading: Promise<Result>): Promise<Result | null> {
  return reading.catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  });
}

/** In a record, the start of a call directly precedes its project. */
function findProjects(text: string): QuarantinedFile['calls'] {
  return Array.from(text.matchAll(/(?:"startedAt":(\d{1,16}),)?"projectId":"([0-9a-f-]{36})"/g), ([, startedAt, projectId = '']) => ({
    projectId,
    startedAt: startedAt === undefined ? null : Number(startedAt),
  })).filter(({ projectId }) => isUuid(projectId));
}

/**
 * Matches the project, start and subject in a record's `facts`. We limit the repetition to more than any subject needs,
 * because a damaged record may have megabytes after `"subject":"` and the regex engine would run out of memory for
 * backtracking. The lookahead doesn't consume the subject, because a torn subject ends inside the next member.
 */
const factsMember =
  /"projectId":(?:"(?<projectId>[0-9a-f-]{36})")?|"startedAt":(?<startedAt>\d{1,16})?|"subject":(?=(?<subject>"(?:[^"\\]|\\.){0,4096}"))/g;

/**
 * Finds the subjects together with the project and start time before them. We search the text because a record may be
 * damaged or come from another version. If we can't read the start time of a call, we treat the call as older than any
 * erasure.
 */
function findSubjects(text: string): { readonly subject: string; readonly projectId: string; readonly startedAt: number }[] {
  let [projectId, startedAt] = ['', 0];
  return Array.from(text.matchAll(factsMember), ({ 0: member, groups = {} }) => {
    if (member.startsWith('"projectId"')) projectId = groups.projectId ?? '';
    else if (member.startsWith('"startedAt"')) startedAt = Number(groups.startedAt ?? 0);
    const subject = parseJson(groups.subject ?? '');
    return typeof subject === 'string' ? [{ subject, projectId, startedAt }] : [];
  }).flat();
}

function findCalls(text: string): SubjectCall[] {
  return findSubjects(text).filter(({ projectId }) => isUuid(projectId));
}

function quarantineFolder(dataDir: string): string {
  return join(dataDir, 'journal', 'quarantine');
}

export function createQuarantine(
  dataDir: string,
  isErased: IsErased = async () => false,
  files: JournalFileSystem = nodeFileSystem,
): Quarantine {
  const folder = quarantineFolder(dataDir);
  const isAllowed = async (text: string): Promise<boolean> => {
    const calls = findCalls(text);
    return calls.length === 0 || !(await isErased(calls));
  };
  return {
    async addRecord(callId, raw) {
      if (!(await isAllowed(textOf(raw)))) return false;
      // The id comes from the rejected record, so it may be invalid too.
      const name = callId !== null && isUuid(callId) ? callId : createHash('sha256').update(raw).digest('hex');
      await files.write(join(folder, `${name}.record`), raw);
      return true;
    },
    async addSegment(journalId, segment, file) {
      const bytes = await files.read(file, 0, await files.size(file));
      if (!(await isAllowed(textOf(bytes)))) return false;
      await files.write(join(folder, `${journalId}-${segment}.segment`), bytes);
      return true;
    },
  };
}
