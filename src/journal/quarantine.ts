/**
 * The quarantine keeps records that the database rejects because of their data, so that operators can inspect them.
 * Each record is a file in `<dataDir>/journal/quarantine/`, in the journal's own format. The folder has mode 0700 and
 * the files have mode 0600, as in the journal.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../core/error-messages.ts';
import { isUuid } from '../core/ids.ts';
import { parseJson } from '../core/json/parse.ts';
import { hashSubjectHex } from '../core/subject.ts';
import { type JournalFileSystem, nodeFileSystem } from './file-system.ts';
import { decodeFrames } from './frame.ts';

export interface SubjectCall {
  readonly projectId: string;
  readonly subject: string;
  readonly startedAt: number;
}

/**
 * Returns true if the subject of any of these calls was erased after the call began. We don't quarantine such calls. If
 * this rejects, we try again later.
 */
export type IsErased = (calls: readonly SubjectCall[]) => Promise<boolean>;

export interface Quarantine {
  /**
   * Writes a record to a file, and replaces the file if the record already has one. Returns false if we aren't allowed
   * to keep the record because its subject was erased. Rejects if we can't find that out.
   */
  addRecord(callId: string | null, raw: Buffer): Promise<boolean>;
  /**
   * Keeps a copy of a segment that we couldn't read completely. Returns false or rejects in the same cases as
   * `addRecord`.
   */
  addSegment(journalId: string, segment: number, file: string): Promise<boolean>;
}

/**
 * Deletes the files that mention one of these subjects (hexadecimal SHA-256) in calls of this project, because the
 * subjects are being erased. Returns how many files were deleted.
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

/** Describes a file in the quarantine without revealing its text. */
export interface QuarantinedFile {
  readonly name: string;
  readonly bytes: number;
  readonly quarantinedAt: Date;
  /**
   * The calls that we could read from the file. If it's a segment, there can be several. `startedAt` is null if that
   * part of the file is damaged.
   */
  readonly calls: readonly { readonly projectId: string; readonly startedAt: number | null }[];
}

/** Oldest first. */
export async function listQuarantined(dataDir: string): Promise<QuarantinedFile[]> {
  return (await readFiles(dataDir)).map(({ file }) => file);
}

/** Reads all files in the quarantine. If we couldn't read all records of a file, its `isComplete` is false. */
async function readFiles(dataDir: string): Promise<{ readonly file: QuarantinedFile; readonly isComplete: boolean }[]> {
  const folder = quarantineFolder(dataDir);
  const files: { file: QuarantinedFile; isComplete: boolean }[] = [];
  for (const name of await listNames(folder)) {
    const file = join(folder, name);
    // Other processes use this folder as well, so the file may be gone by now.
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
 * Returns the JSON of all records in the file, without the request bodies, because those could mention any project or
 * time. We wrote the JSON ourselves, so any text from callers is escaped. `rest` contains the bytes after the last
 * record that we can decode.
 */
function readRecords(bytes: Buffer): { readonly text: string; readonly rest: Buffer } {
  const { frames, usedBytes } = decodeFrames(bytes);
  return { text: frames.map(({ meta }) => meta.toString('utf8')).join('\n'), rest: bytes.subarray(usedBytes) };
}

/** Returns all the text in a file, because erasures must not miss a subject anywhere. */
function textOf(bytes: Buffer): string {
  const { text, rest } = readRecords(bytes);
  return text + rest.toString('utf8');
}

/**
 * Deletes files with calls that have reached the end of their project's retention period. If we can't read all of a
 * file, or can't find a project in it, we use the shortest period. Returns how many files were deleted.
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

/**
 * Finds the projects in the text of records. If the start time of a call is directly in front of its project, we return
 * that as well.
 */
function findProjects(text: string): QuarantinedFile['calls'] {
  return Array.from(text.matchAll(/(?:"startedAt":(\d{1,16}),)?"projectId":"([0-9a-f-]{36})"/g), ([, startedAt, projectId = '']) => ({
    projectId,
    startedAt: startedAt === undefined ? null : Number(startedAt),
  })).filter(({ projectId }) => isUuid(projectId));
}

/**
 * Matches the project, the start and the subject in the `facts` of a record. We limit the number of repetitions,
 * because a damaged record with megabytes after `"subject":"` would otherwise make the regex engine run out of memory
 * while backtracking. No valid subject reaches that limit. We match the subject in a lookahead, because a truncated
 * subject can run into the next field.
 */
const factsMember =
  /"projectId":(?:"(?<projectId>[0-9a-f-]{36})")?|"startedAt":(?<startedAt>\d{1,16})?|"subject":(?=(?<subject>"(?:[^"\\]|\\.){0,4096}"))/g;

/**
 * Finds all subjects, each with the project and start time in front of it. We search the text instead of parsing it,
 * because records can be damaged or come from other versions. If we can't read when a call started, we assume that it's
 * older than any erasure.
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
      // The id of a rejected record may not be a UUID, so don't use it as a file name in that case.
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
