/** Quarantines and logs records that the database rejected or that we couldn't read completely. */
import type { SettledCall } from '../core/call.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Logger } from '../observability/logger.ts';
import type { Frame } from './frame.ts';
import { callFields } from './parked-calls.ts';
import type { Quarantine } from './quarantine.ts';

export interface UnreadableRecord {
  readonly callId: string | null;
  readonly frame: Frame;
}

export function createRejectedRecords(quarantine: Quarantine, logger: Logger) {
  let quarantined = 0;
  let unreadable = 0;

  /**
   * Adds a record to the quarantine. Returns false if we couldn't write it. A full disk isn't an error here, since the
   * drain has to go on in order to free disk space. The only errors that this throws are connection errors.
   */
  const keep = async (callId: string | null, raw: Buffer): Promise<boolean> => {
    const isWritten = await quarantine.addRecord(callId, raw).catch((error: unknown) => {
      if (isConnectionError(error)) throw error;
      logger.error({ err: error, call: callId }, 'failed to write a record to the quarantine');
      return false;
    });
    if (isWritten) quarantined += 1;
    return isWritten;
  };

  return {
    keep,
    async keepUnreadable({ callId, frame }: UnreadableRecord): Promise<void> {
      const isKept = await keep(callId, frame.raw);
      unreadable += 1;
      logger.error({ call: callId, inQuarantine: isKept }, 'journal record not readable by this version');
    },
    /** Call this when a call has been stored without the text that its segment should have contained. */
    async reportIncomplete({ metadata }: SettledCall, raw: Buffer | null): Promise<void> {
      const isKept = raw !== null && (await keep(metadata.id, raw));
      const fields = { ...callFields(metadata), inQuarantine: isKept };
      logger.error(fields, 'call stored without its text because the journal is damaged');
    },
    counts: () => ({ quarantined, unreadable }),
  };
}
