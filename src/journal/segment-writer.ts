/**
 * Appends records to segment files with group commit, i.e. all records from one turn of the event loop share a buffer,
 * a promise and a write. If `sync-writes.ts` allows it, the write is synchronous. Records that arrive during an
 * asynchronous write are written together afterwards.
 *
 * If a write fails, all of its records are rejected, and we truncate the segment to its last valid byte. Even if that
 * fails too, `bytes` still ends before the failed write. The next write starts a new segment, so a valid record never
 * follows a partial one. Records with a large body get a segment of their own (`large-records.ts`).
 */
import { join } from 'node:path';
import type { SettledCall } from '../core/call.ts';
import { largeBytes } from '../core/low-priority-thread.ts';
import { repeatedPartsOf } from '../core/repeated-parts.ts';
import { createSyncWrites } from '../core/sync-writes.ts';
import type { Clock } from '../core/time.ts';
import { createTurnBatch, type TurnBatch } from '../core/turn-batch.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { JournalFileSystem, OpenFile } from './file-system.ts';
import { createFrameBuffer, type FrameBuffer } from './frame.ts';
import { createLargeRecordWriter } from './large-records.ts';
import type { WrittenRange } from './recent-calls.ts';
import { attachmentOf, formatRecord, type JournalRecord } from './record.ts';
import { segmentName } from './segment-name.ts';
import { createWrittenParts, type SharedBody, type WrittenParts } from './shared-bytes.ts';

export interface Segment {
  readonly number: number;
  readonly file: string;
  readonly createdAt: number;
  readonly bytes: number;
  /** True if the segment is sealed, i.e. we don't append any more records to it. */
  readonly sealed: boolean;
}

export interface SegmentWriterOptions {
  readonly folder: string;
  readonly files: JournalFileSystem;
  readonly clock: Clock;
  readonly segmentBytes: number;
  readonly sync: boolean;
  /** Called when a record has been written. The sizes in `segments` don't include it yet. */
  readonly onWritten: (record: JournalRecord, segment: number) => void;
  /** Called after each write to a segment. */
  readonly onAppended: (range: WrittenRange) => void;
  readonly failpoint: HitFailpoint;
  /**
   * We write records after this batch has run, so that all records from one turn of the event loop are written
   * together.
   */
  readonly turnBatch?: TurnBatch | undefined;
}

interface WriteGroup {
  readonly records: JournalRecord[];
  readonly frames: FrameBuffer;
  readonly written: PromiseWithResolvers<void>;
  /**
   * Request bodies in this group that later bodies may share parts with. `offset` is the position of the body's
   * attachment in `frames`.
   */
  bodies: { readonly body: Buffer; readonly shared: SharedBody | null; readonly offset: number }[];
  /**
   * The number of the segment to which the shared bodies of this group refer. Null if the group has no shared bodies.
   */
  refersTo: number | null;
}

type MutableSegment = { -readonly [Key in keyof Segment]: Segment[Key] };

interface OpenSegment {
  readonly segment: MutableSegment;
  readonly file: OpenFile;
  readonly parts: WrittenParts;
}

interface EncodedRecord {
  readonly meta: readonly string[];
  readonly body: Buffer | null;
  readonly shared: SharedBody | null;
}

/** Encodes a record. If a segment is open, the encoded body may refer to bytes that are already in it. */
function encode(record: JournalRecord, open: OpenSegment | null): EncodedRecord {
  const body = attachmentOf(record);
  const shared = body && open ? open.parts.share(body) : null;
  return { meta: formatRecord(record, shared), body, shared };
}

export function createSegmentWriter(options: SegmentWriterOptions) {
  const { folder, files, clock, segmentBytes, sync, onWritten, onAppended, failpoint, turnBatch = createTurnBatch() } = options;
  const allSegments: MutableSegment[] = [];
  // We don't have to limit the length of this list. Each call waits until its record has been written, and the number
  // of parked calls is limited (`parked-calls.ts`).
  const pending: (WriteGroup | (() => Promise<void>))[] = [];
  /** The buffer of a group that has been written, so that the next group can reuse it. */
  let spareFrames: FrameBuffer | null = null;
  let current: OpenSegment | null = null;
  let nextNumber = 1;
  /** The file operation in progress, unless it's a synchronous one. */
  let working: Promise<void> | null = null;
  let isScheduled = false;
  const syncWrites = createSyncWrites();
  let isClosed = false;

  const schedule = (): void => {
    if (isScheduled || working) return;
    isScheduled = true;
    turnBatch.runAfter(writeScheduled);
  };

  const writeScheduled = (): void => {
    isScheduled = false;
    writePending();
  };

  const writePending = (): void => {
    while (!working) {
      const group = pending.shift();
      if (!group) return;
      if (typeof group === 'function') startWork(group());
      else if (!current || !canWriteSync(current.segment, group)) startWork(writeGroup(group));
      else writeGroupSync(current, group);
    }
  };

  /** Registers an asynchronous file operation. When it ends, we write the records that have arrived in the meantime. */
  const startWork = (work: Promise<void>): void => {
    working = work.finally(() => {
      working = null;
      writePending();
    });
  };

  const canWriteSync = (segment: Segment, group: WriteGroup): boolean =>
    !sync && segment.bytes < segmentBytes && refersOnlyTo(segment, group) && syncWrites.allows(group.frames.length);

  const refersOnlyTo = ({ number }: Segment, { refersTo }: WriteGroup): boolean => refersTo === null || refersTo === number;

  /**
   * Returns the group to which we add the next record. Returns null if we need a new group, because the last one is
   * already about as large as a segment. Otherwise, a single write could contain too many large bodies.
   */
  const groupToFill = (): WriteGroup | null => {
    const last = pending.at(-1);
    return last && typeof last !== 'function' && last.frames.length < segmentBytes ? last : null;
  };

  const startGroup = (): WriteGroup => {
    const frames = spareFrames ?? createFrameBuffer();
    const group: WriteGroup = { records: [], frames, written: Promise.withResolvers<void>(), bodies: [], refersTo: null };
    spareFrames = null;
    pending.push(group);
    return group;
  };

  const addEncoded = ({ frames, bodies }: WriteGroup, { meta, body, shared }: EncodedRecord): void => {
    const offset = frames.add(meta, shared ? shared.attachment : body);
    if (body !== null && repeatedPartsOf(body).length > 0) bodies.push({ body, shared, offset });
  };

  /** Encodes the group again if it refers to a segment other than the one that we're about to write it to. */
  const encodeFor = (group: WriteGroup, segment: Segment): void => {
    if (refersOnlyTo(segment, group)) return;
    group.frames.clear();
    group.bodies = [];
    group.refersTo = null;
    for (const record of group.records) addEncoded(group, encode(record, null));
  };

  const reuseFrames = ({ frames }: WriteGroup): void => {
    frames.clear();
    spareFrames = frames;
  };

  const writeGroupSync = (open: OpenSegment, group: WriteGroup): void => {
    const { segment, file } = open;
    try {
      failpoint('before write');
      syncWrites.measure(() => file.writeAllSync(group.frames.buffers(), segment.bytes));
      failpoint('after write');
    } catch (error) {
      startWork(reject(group, error));
      return;
    }
    resolve(group, open);
  };

  const writeGroup = async (group: WriteGroup): Promise<void> => {
    let open: OpenSegment;
    try {
      open = await openCurrent();
      encodeFor(group, open.segment);
      await group.frames.addChecksums();
      failpoint('before write');
      await open.file.writeAll(group.frames.buffers(), open.segment.bytes);
      failpoint('after write');
      if (sync) await open.file.sync();
    } catch (error) {
      return reject(group, error);
    }
    resolve(group, open);
  };

  const resolve = (group: WriteGroup, { segment, parts }: OpenSegment): void => {
    const { length } = group.frames;
    for (const { body, shared, offset } of group.bodies) parts.add(body, shared, segment.bytes + offset);
    reuseFrames(group);
    group.written.resolve();
    report(group.records, segment, length);
  };

  const report = (records: readonly JournalRecord[], segment: MutableSegment, bytes: number): void => {
    const calls: SettledCall[] = [];
    for (const record of records) {
      onWritten(record, segment.number);
      if (record.kind === 'settled') calls.push(record.call);
    }
    const start = segment.bytes;
    segment.bytes += bytes;
    onAppended({ segment: segment.number, start, end: segment.bytes, calls });
  };

  const reject = async (group: WriteGroup, error: unknown): Promise<void> => {
    reuseFrames(group);
    await truncateCurrent();
    group.written.reject(error);
  };

  /**
   * Adds a file that consists of a single record. The file is newer than the current segment, so that one ends here.
   */
  const addLarge = async (path: string, record: JournalRecord, bytes: number): Promise<void> => {
    await sealCurrent();
    const segment = startSegment(true);
    await files.rename(path, segment.file);
    await syncNames().catch(async (error: unknown) => {
      await files.remove(segment.file).catch(() => undefined);
      throw error;
    });
    allSegments.push(segment);
    report([record], segment, bytes);
  };

  const startSegment = (sealed: boolean): MutableSegment => {
    const number = nextNumber;
    nextNumber += 1;
    return { number, file: join(folder, segmentName(number)), createdAt: clock.now(), bytes: 0, sealed };
  };

  const openCurrent = async (): Promise<OpenSegment> => {
    if (current && current.segment.bytes >= segmentBytes) await sealCurrent();
    if (!current) {
      const segment = startSegment(false);
      current = { segment, file: await files.create(segment.file), parts: createWrittenParts() };
      allSegments.push(segment);
      await syncNames();
    }
    return current;
  };

  const syncNames = async (): Promise<void> => {
    if (sync) await files.syncFolder(folder);
  };

  const sealCurrent = async (): Promise<void> => {
    if (!current) return;
    const { segment, file } = current;
    current = null;
    segment.sealed = true;
    // Ignore errors. Everything has already been written (and flushed, if `sync` is set), so we don't lose anything if
    // the file can't be closed.
    await file.close().catch(() => undefined);
  };

  /**
   * Called after a failed write, which may have left partial bytes in the file. We remove those bytes and don't append
   * anything else to this segment.
   */
  const truncateCurrent = async (): Promise<void> => {
    if (!current) return;
    const { segment, file } = current;
    // If we can't truncate the file, it doesn't matter much, because `bytes` doesn't include the partial record, and
    // recovery stops reading when it gets there.
    await file.truncate(segment.bytes).catch(() => undefined);
    await sealCurrent();
  };

  /** Runs `work` after all records that have been appended so far are written, and before any later ones are. */
  const runInOrder = (work: () => Promise<void>): Promise<void> => {
    const done = Promise.withResolvers<void>();
    pending.push(() => work().then(done.resolve, done.reject));
    writePending();
    return done.promise;
  };

  const largeRecords = createLargeRecordWriter({
    ...{ folder, files, sync, failpoint },
    onWritten: (path, record, bytes) => runInOrder(() => addLarge(path, record, bytes)),
  });

  return {
    /** Resolves when the record has been written (and flushed if `sync` is set). Rejects if the write fails. */
    append(record: JournalRecord): Promise<void> {
      if (isClosed) return Promise.reject(new Error('the journal is closed'));
      const filling = groupToFill();
      // A group can only refer to a single segment.
      const canShare = filling === null || filling.refersTo === null || filling.refersTo === current?.segment.number;
      const encoded = encode(record, canShare ? current : null);
      const bytes = (encoded.shared ? encoded.shared.attachment : encoded.body)?.length ?? 0;
      if (bytes >= Math.min(largeBytes, segmentBytes)) return largeRecords.write(record);
      const group = filling ?? startGroup();
      addEncoded(group, encoded);
      if (encoded.shared) group.refersTo = current?.segment.number ?? null;
      group.records.push(record);
      schedule();
      return group.written.promise;
    },
    /** Oldest first. */
    segments: (): readonly Segment[] => allSegments,
    /** Writes pending records and seals the current segment if it has any. */
    async seal(): Promise<void> {
      await largeRecords.written();
      await runInOrder(async () => {
        if (current && current.segment.bytes > 0) await sealCurrent();
      });
    },
    async remove(number: number): Promise<void> {
      const index = allSegments.findIndex((segment) => segment.number === number && segment.sealed);
      const segment = allSegments[index];
      if (!segment) return;
      await files.remove(segment.file);
      allSegments.splice(allSegments.indexOf(segment), 1);
    },
    /** Writes pending records and closes the file. After this, `append` rejects. */
    async close(): Promise<void> {
      isClosed = true;
      await largeRecords.written();
      await runInOrder(sealCurrent);
    },
  };
}
