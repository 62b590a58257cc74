/**
 * Where records go that the database refuses for what is in them: `<dataDir>/journal/quarantine/`, one file each, as they lay in the
 * journal, for a person to look at. Private like the journal itself: folder 0700, files 0600.
 */
import { createHash } from 'node:crypto';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isUuid } from '../core/ids.ts';

export interface Quarantine {
  /** Keeps the bytes of a record; the same record again replaces its file. */
  keepRecord(callId: string | null, raw: Buffer): Promise<void>;
  /** Keeps a copy of a segment that cannot be read to its end. */
  keepSegment(journalId: string, segment: number, file: string): Promise<void>;
}

export function createQuarantine(dataDir: string): Quarantine {
  const folder = join(dataDir, 'journal', 'quarantine');
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
