/**
 * Quarantine: records that the database rejects because of their data, kept for inspection in `<dataDir>/journal/quarantine/`, one file each,
 * as in the journal. Private like the journal: folder 0700, files 0600.
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

/** A call with a subject, found in the text of a record. */
export interface SubjectCall {
  readonly projectId: string;
  readonly subject: string;
  readonly startedAt: number;
}

/** True when one of the calls precedes an erasure of its subject; a record with such a call is not kept. May reject: the record is then kept later. */
export type IsErased = (calls: readonly SubjectCall[]) => Promise<boolean>;

export interface Quarantine {
  /** Writes the bytes of a record to a file, replacing one of the same record. False when it may not be kept. Rejects as `IsErased` does. */
  addRecord(callId: string | null, raw: Buffer): Promise<boolean>;
  /** Copies a segment that cannot be read to its end. False and rejects as `addRecord`. */
  addSegment(journalId: string, segment: number, file: string): Promise<boolean>;
}

/** Erasure: deletes the files with a call of this project about one of these subjects (SHA-256, hexadecimal). Returns the number of files. */
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

/** A file of the quarantine, without its text. */
export interface QuarantinedFile {
  readonly name: string;
  readonly bytes: number;
  readonly quarantinedAt: Date;
  /** Those that can be read; a segment has several. The start is null when it cannot be read. */
  readonly calls: readonly { readonly projectId: string; readonly startedAt: number | null }[];
}

/** Oldest first. */
export async function listQuarantined(dataDir: string): Promise<QuarantinedFile[]> {
  return (await readFiles(dataDir)).map(({ file }) => file);
}

/** `isComplete`: every record of the file can be read. */
async function readFiles(dataDir: string): Promise<{ readonly file: QuarantinedFile; readonly isComplete: boolean }[]> {
  const folder = quarantineFolder(dataDir);
  const files: { file: QuarantinedFile; isComplete: boolean }[] = [];
  for (const name of await listNames(folder)) {
    const file = join(folder, name);
    // Another process of this host may delete it meanwhile.
    const found = await orNullWhenMissing(Promise.all([readFile(file), stat(file)]));
    if (!found) continue;
    const [bytes, { size, mtime }] = found;
    const { text, rest } = readRecords(bytes);
    files.push({ file: { name, bytes: size, quarantinedAt: mtime, calls: findProjects(text) }, isComplete: rest.length === 0 });
  }
  return files.toSorted((one, other) => one.file.quarantinedAt.getTime() - other.file.quarantinedAt.getTime());
}

/** Number of files; for metrics. */
export async function countQuarantined(dataDir: string): Promise<number> {
  return (await listNames(quarantineFolder(dataDir))).length;
}

/**
 * What the gateway has written about the calls of a file: the JSON of its records, in which the texts of callers are escaped. Not the bodies of
 * their requests, which could name any project and time. `rest`: the bytes in which no record can be read.
 */
function readRecords(bytes: Buffer): { readonly text: string; readonly rest: Buffer } {
  const { frames, usedBytes } = decodeFrames(bytes);
  return { text: frames.map(({ meta }) => meta.toString('utf8')).join('\n'), rest: bytes.subarray(usedBytes) };
}

/** For erasures, which must miss no subject. */
function textOf(bytes: Buffer): string {
  const { text, rest } = readRecords(bytes);
  return text + rest.toString('utf8');
}

/**
 * Deletes the files with a call that began before the deletion period of its project. A file that cannot be read as a whole, or names no project,
 * has the shortest period of all. Returns the number of files.
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

/** The start of a call directly precedes its project in a record. */
function findProjects(text: string): QuarantinedFile['calls'] {
  return Array.from(text.matchAll(/(?:"startedAt":(\d{1,16}),)?"projectId":"([0-9a-f-]{36})"/g), ([, startedAt, projectId = '']) => ({
    projectId,
    startedAt: startedAt === undefined ? null : Number(startedAt),
  })).filter(({ projectId }) => isUuid(projectId));
}

/**
 * Project, start and subject as they are in a record's `facts`. The repetition is bounded, more than any subject needs: a damaged record may have
 * megabytes after `"subject":"`, of which the engine could not keep the steps. A subject is not consumed, because a torn one ends in the next member.
 */
const factsMember =
  /"projectId":(?:"(?<projectId>[0-9a-f-]{36})")?|"startedAt":(?<startedAt>\d{1,16})?|"subject":(?=(?<subject>"(?:[^"\\]|\\.){0,4096}"))/g;

/**
 * The subjects with the project and start time before them. Searches the text, since records may be damaged or of another version. A call without a
 * readable start time counts as older than any erasure.
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
      // The id comes from the rejected record and may itself be invalid.
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
