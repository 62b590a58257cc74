/**
 * Appends to segment files with group commit: records that arrive during a write go into the next one, so that a busy process makes one write
 * per turn of the event loop, whatever the number of calls.
 *
 * When a write fails, all its records are rejected, the segment is truncated to its last valid byte (or, if that fails too, its known length
 * ends there), and the next write starts a new segment. So no partial write ever precedes a valid record.
 */
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../core/time.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { JournalFileSystem, OpenFile } from './file-system.ts';
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
  readonly onAppended: () => void;
  readonly failpoint: HitFailpoint;
}

interface PendingWrite {
  readonly buffers: readonly Buffer[];
  readonly bytes: number;
  readonly onWritten: ((segment: number) => void) | undefined;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

type MutableSegment = { -readonly [Key in keyof Segment]: Segment[Key] };

export function createSegmentWriter(options: SegmentWriterOptions) {
  const { folder, files, clock, segmentBytes, sync, onAppended, failpoint } = options;
  const allSegments: MutableSegment[] = [];
  // Bounded by the callers: each call waits for its record, and parked calls are bounded in `parked-calls.ts`.
  let pending: PendingWrite[] = [];
  let current: { readonly segment: MutableSegment; readonly file: OpenFile } | null = null;
  let nextNumber = 1;
  let writing: Promise<void> | null = null;
  let isClosed = false;

  const writePending = async (): Promise<void> => {
    while (pending.length > 0) await writeGroup(nextGroup());
  };

  const startWriting = (): void => {
    writing ??= thenWritePending(nextTurn().then(writePending));
  };

  /** Resolves as `work` does, after which records that arrived meanwhile are written. */
  const thenWritePending = (work: Promise<void>): Promise<void> =>
    work.finally(() => {
      writing = null;
      if (pending.length > 0) startWriting();
    });

  /** Records of one write: about a segment at most, to bound a write of many large bodies. */
  const nextGroup = (): PendingWrite[] => {
    let bytes = 0;
    let length = 0;
    for (const item of pending) {
      if (length > 0 && bytes + item.bytes > segmentBytes) break;
      bytes += item.bytes;
      length += 1;
    }
    const group = pending.slice(0, length);
    pending = pending.slice(length);
    return group;
  };

  const writeGroup = async (group: readonly PendingWrite[]): Promise<void> => {
    try {
      const { segment, file } = await openCurrent();
      failpoint('before write');
      await file.writeAll(
        group.flatMap((item) => item.buffers),
        segment.bytes,
      );
      failpoint('after write');
      if (sync) await file.sync();
      for (const item of group) item.onWritten?.(segment.number);
      segment.bytes += group.reduce((sum, item) => sum + item.bytes, 0);
    } catch (error) {
      await truncateCurrent();
      for (const item of group) item.reject(error);
      return;
    }
    for (const item of group) item.resolve();
    onAppended();
  };

  const openCurrent = async (): Promise<{ segment: MutableSegment; file: OpenFile }> => {
    if (current && current.segment.bytes >= segmentBytes) await sealCurrent();
    if (!current) {
      const number = nextNumber;
      nextNumber += 1;
      const path = join(folder, segmentName(number));
      const segment = { number, file: path, createdAt: clock.now(), bytes: 0, sealed: false };
      current = { segment, file: await files.create(path) };
      allSegments.push(segment);
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

  /** Runs `work` when no write is in progress. */
  const whenIdle = async (work: () => Promise<void>): Promise<void> => {
    while (writing) await writing;
    writing = thenWritePending(work());
    await writing;
  };

  return {
    /**
     * Resolves when the bytes are written (with `sync`, flushed); rejects when they are not. `onWritten` is called before `segments` includes
     * the bytes.
     */
    append(buffers: readonly Buffer[], onWritten?: (segment: number) => void): Promise<void> {
      if (isClosed) return Promise.reject(new Error('the journal is closed'));
      return new Promise((resolve, reject) => {
        const bytes = buffers.reduce((sum, buffer) => sum + buffer.length, 0);
        pending.push({ buffers, bytes, onWritten, resolve, reject });
        startWriting();
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
