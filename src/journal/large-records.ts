/**
 * Writes records with a large body to files of their own, so that other records don't have to wait for them. A body of
 * 29 MB takes tens of milliseconds, in which no other call could start or end.
 *
 * Once a file is complete, it becomes the newest segment, and the segment that was open until then is sealed. That way
 * the drain, which reads the segments in order, doesn't miss any record that is written later.
 */
import { join } from 'node:path';
import type { HitFailpoint } from './failpoints.ts';
import type { JournalFileSystem } from './file-system.ts';
import { createFrameBuffer } from './frame.ts';
import { attachmentOf, formatRecord, type JournalRecord } from './record.ts';

interface LargeRecordOptions {
  readonly folder: string;
  readonly files: JournalFileSystem;
  readonly sync: boolean;
  readonly failpoint: HitFailpoint;
  /** Makes the file the newest segment. If this fails, we treat the record as if it hadn't been written. */
  readonly onWritten: (path: string, record: JournalRecord, bytes: number) => Promise<void>;
}

export function createLargeRecordWriter({ folder, files, sync, failpoint, onWritten }: LargeRecordOptions) {
  let last: Promise<void> = Promise.resolve();
  let count = 0;

  const write = async (record: JournalRecord): Promise<void> => {
    const frames = createFrameBuffer();
    frames.add(formatRecord(record, null), attachmentOf(record));
    await frames.addChecksums();
    count += 1;
    const path = join(folder, `large-${count}`);
    try {
      const file = await files.create(path);
      try {
        failpoint('before write');
        await file.writeAll(frames.buffers(), 0);
        failpoint('after write');
        if (sync) await file.sync();
      } finally {
        await file.close();
      }
      await onWritten(path, record, frames.length);
    } catch (error) {
      await files.remove(path).catch(() => undefined);
      throw error;
    }
  };

  return {
    /** Writes the record after all earlier ones. */
    write(record: JournalRecord): Promise<void> {
      const written = last.then(() => write(record));
      last = written.catch(() => undefined);
      return written;
    },
    /** Resolves when all records have been written or have failed. */
    written: (): Promise<void> => last,
  };
}
