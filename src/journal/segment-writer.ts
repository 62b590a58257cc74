/**
 * Appends to segment files with group commit: the records of one turn of the event loop share a write, which is synchronous where
 * `sync-writes.ts` allows it. Records that arrive during an asynchronous write go into the next one.
 *
 * When a write fails, all its records are rejected, the segment is truncated to its last valid byte (or, if that fails too, its known length
 * ends there), and the next write starts a new segment. So no partial write ever precedes a valid record.
 */
import { join } from 'node:path';
import type { SettledCall } from '../core/call.ts';
import { createSyncWrites } from '../core/sync-writes.ts';
import type { Clock } from '../core/time.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { JournalFileSystem, OpenFile } from './file-system.ts';
import type { WrittenRange } from './recent-calls.ts';
import { segmentName } from './segment-name.ts';

export interface Segment {
  readonly number: number;
  readonly file: string;
  readonly createdAt: number;
  /** Length of what was written successfully. */
  readonly bytes: number;
  /** Closed for appends. */
  readonly sealed: boolean;
}

export interface SegmentWriterOptions {
  readonly folder: string;
  readonly files: JournalFileSystem;
  readonly clock: Clock;
  readonly segmentBytes: number;
  readonly sync: boolean;
  /** Called after each write that added bytes. */
  readonly onAppended: (range: WrittenRange) => void;
  readonly failpoint: HitFailpoint;
}

/** An encoded record. */
export interface Append {
  readonly buffers: readonly Buffer[];
  /** The call of a `settled` record. */
  readonly settled?: SettledCall;
  /** Called before `segments` includes the bytes. */
  readonly onWritten?: (segment: number) => void;
}

interface PendingWrite extends Append {
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface WriteGroup {
  readonly items: readonly PendingWrite[];
  readonly bytes: number;
}

type MutableSegment = { -readonly [Key in keyof Segment]: Segment[Key] };

interface OpenSegment {
  readonly segment: MutableSegment;
  readonly file: OpenFile;
}

export function createSegmentWriter(options: SegmentWriterOptions) {
  const { folder, files, clock, segmentBytes, sync, onAppended, failpoint } = options;
  const allSegments: MutableSegment[] = [];
  // Bounded by the callers: each call waits for its record, and parked calls are bounded in `parked-calls.ts`.
  let pending: PendingWrite[] = [];
  let current: OpenSegment | null = null;
  let nextNumber = 1;
  /** Asynchronous work on the files. */
  let working: Promise<void> | null = null;
  let isScheduled = false;
  const syncWrites = createSyncWrites();
  let isClosed = false;

  const schedule = (): void => {
    if (isScheduled || working) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      if (!working) writePending();
    });
  };

  const writePending = (): void => {
    while (pending.length > 0 && !working) {
      const group = nextGroup();
      if (!current || !canWriteSync(current.segment, group)) startWork(writeGroup(group));
      else writeGroupSync(current, group);
    }
  };

  /** Records that arrive during the work are written after it. */
  const startWork = (work: Promise<void>): void => {
    working = work.finally(() => {
      working = null;
      if (pending.length > 0) writePending();
    });
  };

  const canWriteSync = (segment: Segment, { bytes }: WriteGroup): boolean =>
    !sync && segment.bytes < segmentBytes && syncWrites.allows(bytes);

  /** Records of one write: about a segment at most, to bound a write of many large bodies. */
  const nextGroup = (): WriteGroup => {
    let bytes = 0;
    let length = 0;
    for (const item of pending) {
      if (length > 0 && bytes + item.bytes > segmentBytes) break;
      bytes += item.bytes;
      length += 1;
    }
    const items = pending.slice(0, length);
    pending = pending.slice(length);
    return { items, bytes };
  };

  const writeGroupSync = ({ segment, file }: OpenSegment, group: WriteGroup): void => {
    try {
      failpoint('before write');
      syncWrites.measure(() => file.writeAllSync(buffersOf(group), segment.bytes));
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
      failpoint('before write');
      await open.file.writeAll(buffersOf(group), segment.bytes);
      failpoint('after write');
      if (sync) await open.file.sync();
    } catch (error) {
      return reject(group, error);
    }
    resolve(group, segment);
  };

  const resolve = ({ items, bytes }: WriteGroup, segment: MutableSegment): void => {
    for (const item of items) item.onWritten?.(segment.number);
    const start = segment.bytes;
    segment.bytes += bytes;
    for (const item of items) item.resolve();
    onAppended({ segment: segment.number, start, end: segment.bytes, calls: items.flatMap(({ settled }) => settled ?? []) });
  };

  const reject = async ({ items }: WriteGroup, error: unknown): Promise<void> => {
    await truncateCurrent();
    for (const item of items) item.reject(error);
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
    // All bytes were written before (with `sync`, flushed), so a failed close loses nothing.
    await file.close().catch(() => undefined);
  };

  /** After a failed write: nothing may be appended after its partial bytes. */
  const truncateCurrent = async (): Promise<void> => {
    if (!current) return;
    const { segment, file } = current;
    // If this fails, `bytes` still ends before the partial record; recovery stops there.
    await file.truncate(segment.bytes).catch(() => undefined);
    await sealCurrent();
  };

  /** Runs `work` when all records are written. */
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
    /** Resolves when the bytes are written (with `sync`, flushed); rejects when they are not. */
    append(record: Append): Promise<void> {
      if (isClosed) return Promise.reject(new Error('the journal is closed'));
      return new Promise((resolve, reject) => {
        const bytes = record.buffers.reduce((sum, buffer) => sum + buffer.length, 0);
        pending.push({ ...record, bytes, resolve, reject });
        schedule();
      });
    },
    /** Oldest first. */
    segments: (): readonly Segment[] => allSegments,
    /** Writes pending records and seals the current segment unless it is empty. */
    seal: (): Promise<void> =>
      whenIdle(async () => {
        if (current && current.segment.bytes > 0) await sealCurrent();
      }),
    /** Deletes a sealed segment. */
    async remove(number: number): Promise<void> {
      const index = allSegments.findIndex((segment) => segment.number === number && segment.sealed);
      const segment = allSegments[index];
      if (!segment) return;
      await files.remove(segment.file);
      allSegments.splice(allSegments.indexOf(segment), 1);
    },
    /** Writes pending records and closes; `append` rejects from then on. */
    async close(): Promise<void> {
      isClosed = true;
      await whenIdle(sealCurrent);
    },
  };
}

function buffersOf({ items }: WriteGroup): Buffer[] {
  return items.flatMap(({ buffers }) => buffers);
}
