/**
 * Appends to segment files with group commit. The records of one turn of the event loop share a buffer, a promise and a
 * write. The write is synchronous if `sync-writes.ts` allows it. Records that arrive during an asynchronous write go
 * into the next one.
 *
 * If a write fails, we reject all its records and truncate the segment to its last valid byte. If that fails too, the
 * segment's known length still ends before the failed write. The next write starts a new segment, so a valid record
 * never follows a partial write.
 */
import { join } from 'node:path';
import type { SettledCall } from '../core/call.ts';
import { createSyncWrites } from '../core/sync-writes.ts';
import type { Clock } from '../core/time.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { JournalFileSystem, OpenFile } from './file-system.ts';
import { createFrameBuffer, type FrameBuffer } from './frame.ts';
import type { WrittenRange } from './recent-calls.ts';
import { attachmentOf, formatRecord, type JournalRecord } from './record.ts';
import { segmentName } from './segment-name.ts';

export interface Segment {
  readonly number: number;
  readonly file: string;
  readonly createdAt: number;
  /** The number of bytes that were written successfully. */
  readonly bytes: number;
  /** A sealed segment is closed for appends. */
  readonly sealed: boolean;
}

export interface SegmentWriterOptions {
  readonly folder: string;
  readonly files: JournalFileSystem;
  readonly clock: Clock;
  readonly segmentBytes: number;
  readonly sync: boolean;
  /** Called with each record that was written, before `segments` includes its bytes. */
  readonly onWritten: (record: JournalRecord, segment: number) => void;
  /** Called after each write that added bytes. */
  readonly onAppended: (range: WrittenRange) => void;
  readonly failpoint: HitFailpoint;
}

interface WriteGroup {
  readonly records: JournalRecord[];
  readonly frames: FrameBuffer;
  readonly written: PromiseWithResolvers<void>;
}

type MutableSegment = { -readonly [Key in keyof Segment]: Segment[Key] };

interface OpenSegment {
  readonly segment: MutableSegment;
  readonly file: OpenFile;
}

export function createSegmentWriter(options: SegmentWriterOptions) {
  const { folder, files, clock, segmentBytes, sync, onWritten, onAppended, failpoint } = options;
  const allSegments: MutableSegment[] = [];
  // The callers limit its length. Each call waits for its record, and `parked-calls.ts` limits the parked calls.
  const pending: WriteGroup[] = [];
  /** Frames that the next group can reuse. */
  let spareFrames: FrameBuffer | null = null;
  let current: OpenSegment | null = null;
  let nextNumber = 1;
  /** The asynchronous file operation that's running, or null. */
  let working: Promise<void> | null = null;
  let isScheduled = false;
  const syncWrites = createSyncWrites();
  let isClosed = false;

  const schedule = (): void => {
    if (isScheduled || working) return;
    isScheduled = true;
    setImmediate(writeScheduled);
  };

  const writeScheduled = (): void => {
    isScheduled = false;
    writePending();
  };

  const writePending = (): void => {
    while (!working) {
      const group = pending.shift();
      if (!group) return;
      if (!current || !canWriteSync(current.segment, group.frames)) startWork(writeGroup(group));
      else writeGroupSync(current, group);
    }
  };

  /** Records that arrive during the operation are written after it. */
  const startWork = (work: Promise<void>): void => {
    working = work.finally(() => {
      working = null;
      writePending();
    });
  };

  const canWriteSync = (segment: Segment, { length }: FrameBuffer): boolean =>
    !sync && segment.bytes < segmentBytes && syncWrites.allows(length);

  /**
   * Returns the group for the next record. A group is at most about as long as a segment, so that a single write can't
   * contain too many large bodies.
   */
  const groupToFill = (): WriteGroup => {
    const last = pending.at(-1);
    if (last && last.frames.length < segmentBytes) return last;
    const group = { records: [], frames: spareFrames ?? createFrameBuffer(), written: Promise.withResolvers<void>() };
    spareFrames = null;
    pending.push(group);
    return group;
  };

  const reuseFrames = ({ frames }: WriteGroup): void => {
    frames.clear();
    spareFrames = frames;
  };

  const writeGroupSync = ({ segment, file }: OpenSegment, group: WriteGroup): void => {
    try {
      failpoint('before write');
      syncWrites.measure(() => file.writeAllSync(group.frames.buffers(), segment.bytes));
      failpoint('after write');
    } catch (error) {
      startWork(reject(group, error));
      return;
    }
    resolve(group, segment);
  };

  const writeGroup = async (group: WriteGroup): Promise<void> => {
    let segment: MutableSegment;
    try {
      const open = await openCurrent();
      segment = open.segment;
      await group.frames.addChecksums();
      failpoint('before write');
      await open.file.writeAll(group.frames.buffers(), segment.bytes);
      failpoint('after write');
      if (sync) await open.file.sync();
    } catch (error) {
      return reject(group, error);
    }
    resolve(group, segment);
  };

  const resolve = (group: WriteGroup, segment: MutableSegment): void => {
    const calls: SettledCall[] = [];
    for (const record of group.records) {
      onWritten(record, segment.number);
      if (record.kind === 'settled') calls.push(record.call);
    }
    const start = segment.bytes;
    segment.bytes += group.frames.length;
    reuseFrames(group);
    group.written.resolve();
    onAppended({ segment: segment.number, start, end: segment.bytes, calls });
  };

  const reject = async (group: WriteGroup, error: unknown): Promise<void> => {
    reuseFrames(group);
    await truncateCurrent();
    group.written.reject(error);
  };

  const openCurrent = async (): Promise<OpenSegment> => {
    if (current && current.segment.bytes >= segmentBytes) await sealCurrent();
    if (!current) {
      const number = nextNumber;
      nextNumber += 1;
      const path = join(folder, segmentName(number));
      const segment = { number, file: path, createdAt: clock.now(), bytes: 0, sealed: false };
      current = { segment, file: await files.create(path) };
      allSegments.push(segment);
      if (sync) await files.syncFolder(folder);
    }
    return current;
  };

  const sealCurrent = async (): Promise<void> => {
    if (!current) return;
    const { segment, file } = current;
    current = null;
    segment.sealed = true;
    // All bytes have been written (and flushed if `sync` is set), so a failed close loses nothing.
    await file.close().catch(() => undefined);
  };

  /** Called after a failed write, because we must not append anything after its partial bytes. */
  const truncateCurrent = async (): Promise<void> => {
    if (!current) return;
    const { segment, file } = current;
    // If this fails, `bytes` still ends before the partial record, and recovery stops at that record.
    await file.truncate(segment.bytes).catch(() => undefined);
    await sealCurrent();
  };

  /** Runs `work` once all records have been written. */
  const whenIdle = async (work: () => Promise<void>): Promise<void> => {
    for (;;) {
      if (working) await working;
      else if (pending.length > 0) writePending();
      else break;
    }
    startWork(work());
    await working;
  };

  return {
    /** Resolves when the bytes have been written (and flushed if `sync` is set). Rejects if that fails. */
    append(record: JournalRecord): Promise<void> {
      if (isClosed) return Promise.reject(new Error('the journal is closed'));
      const meta = formatRecord(record);
      const { records, frames, written } = groupToFill();
      frames.add(meta, attachmentOf(record));
      records.push(record);
      schedule();
      return written.promise;
    },
    /** Oldest first. */
    segments: (): readonly Segment[] => allSegments,
    /** Writes pending records and seals the current segment unless it's empty. */
    seal: (): Promise<void> =>
      whenIdle(async () => {
        if (current && current.segment.bytes > 0) await sealCurrent();
      }),
    async remove(number: number): Promise<void> {
      const index = allSegments.findIndex((segment) => segment.number === number && segment.sealed);
      const segment = allSegments[index];
      if (!segment) return;
      await files.remove(segment.file);
      allSegments.splice(allSegments.indexOf(segment), 1);
    },
    /** Writes pending records and closes the file. `append` rejects from then on. */
    async close(): Promise<void> {
      isClosed = true;
      await whenIdle(sealCurrent);
    },
  };
}
