/**
 * Stores settled calls in batches, with one transaction per batch, for the drain and for recovery.
 *
 * Throws if the database itself fails (e.g. it's unavailable or full, a table is missing, an index is damaged, or
 * there's a deadlock), and the caller retries. After a data error, we split the batch in half until the bad record is
 * isolated. Then we store its tokens and cost without its text and move the record to the quarantine, so one bad record
 * never blocks the others.
 */
import type { SettledCall } from '../core/call.ts';
import { errorCode } from '../core/error-messages.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database, Queries } from '../db/database.ts';
import { lockProject } from '../db/locks.ts';
import { toBatches } from '../db/row-batches.ts';
import type { Logger } from '../observability/logger.ts';
import { traceBatch } from '../observability/tracing.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { Frame } from './frame.ts';
import { billingFields, callFields } from './parked-calls.ts';
import type { Quarantine } from './quarantine.ts';
import { decodeRecord, encodeRecord, type JournalRecord } from './record.ts';
import { sanitizeCall, stripText } from './sanitize-call.ts';

/** Stores a batch in the transaction `tx`. Must be idempotent per call id. */
export type StoreCalls = (tx: Queries, calls: readonly SettledCall[]) => Promise<unknown>;

/**
 * Prepares the calls of a batch before its transaction begins, because a transaction shouldn't wait for anything but
 * the database.
 */
export type BeforeStore = (calls: readonly SettledCall[]) => Promise<void>;

export interface BatchStoreOptions {
  readonly database: Database;
  readonly store: StoreCalls;
  readonly beforeStore?: BeforeStore | undefined;
  readonly quarantine: Quarantine;
  readonly logger: Logger;
  readonly failpoint: HitFailpoint;
  /** Called after each commit, and only once per call, even if we have to store other calls of the batch again. */
  readonly onStored?: ((calls: readonly SettledCall[]) => void) | undefined;
  /** Called if we can't even store a call's tokens and cost. */
  readonly onRejected?: ((call: SettledCall) => void) | undefined;
}

interface BatchEntry {
  readonly call: SettledCall;
  /**
   * Returns the call's record for the quarantine. Null for calls without a `settled` record, which are settled by
   * `recover.ts`.
   */
  readonly encode: ((call: SettledCall) => Buffer) | null;
}

export interface BatchCounts {
  readonly stored: number;
  /** Records written to the quarantine. */
  readonly quarantined: number;
  /** The number of calls that aren't in the database at all. */
  readonly rejected: number;
}

/**
 * Limits the size of a batch in addition to its number of rows, because we parse and hash the texts on the event loop
 * before we store them.
 */
export const maxBatchBytes = 4 * 1_024 * 1_024;

export function createBatchStore(options: BatchStoreOptions) {
  const { database, store, beforeStore, quarantine, logger, failpoint, onStored, onRejected } = options;
  /** The ids of calls that have been stored or rejected while other calls of the same `storeEntries` are pending. */
  const done = new Set<string>();
  let stored = 0;
  let quarantined = 0;
  let rejected = 0;

  const commit = async (unsanitized: readonly SettledCall[]): Promise<void> => {
    // This throws if a value has the wrong type, because calls from memory haven't been validated.
    const calls = unsanitized.map(sanitizeCall);
    await beforeStore?.(calls);
    await traceBatch(
      calls.map(({ metadata }) => metadata.trace),
      () =>
        database.transaction(async (tx) => {
          await lockProject(tx, [...new Set(calls.map(({ metadata }) => metadata.projectId))], 'shared');
          await store(tx, calls);
          failpoint('before commit');
        }),
    );
    for (const { metadata } of calls) done.add(metadata.id);
    onStored?.(calls);
  };

  const storeBatch = async (entries: readonly BatchEntry[]): Promise<void> => {
    const [first] = entries;
    if (!first) return;
    try {
      failpoint('before store');
      await commit(entries.map(({ call }) => call));
      failpoint('after store');
      stored += entries.length;
    } catch (error) {
      if (!isDataError(error)) throw error;
      if (entries.length === 1) return isolate(first, error);
      const middle = Math.ceil(entries.length / 2);
      await storeBatch(entries.slice(0, middle));
      await storeBatch(entries.slice(middle));
    }
  };

  /**
   * Stores a rejected record without its prompt and response, then without any text. If that fails too, we give up on
   * the record.
   */
  const isolate = async (entry: BatchEntry, cause: unknown): Promise<void> => {
    const { call } = entry;
    if (entry.encode) await addToQuarantine(call.metadata.id, entry.encode(call));
    for (const smaller of [{ ...call, content: null }, stripText(call)]) {
      try {
        await commit([smaller]);
        stored += 1;
        logger.error({ err: cause, ...callFields(call.metadata) }, 'call stored without its text: rejected by database');
        return;
      } catch (error) {
        if (!isDataError(error)) throw error;
      }
    }
    // If the database engine has crashed, it rejects everything without an SQLSTATE. In that case this query throws,
    // and we keep the record.
    await database.query('select 1');
    rejected += 1;
    done.add(call.metadata.id);
    onRejected?.(call);
    logger.error({ err: cause, ...billingFields(call) }, 'call rejected by database');
  };

  /**
   * Returns false if the record wasn't written. Only connection errors are thrown, because a full disk must not stop
   * the drain, which frees disk space.
   */
  const addToQuarantine = async (callId: string | null, raw: Buffer): Promise<boolean> => {
    const isWritten = await quarantine.addRecord(callId, raw).catch((error: unknown) => {
      if (isConnectionError(error)) throw error;
      logger.error({ err: error, call: callId }, 'quarantine write failed');
      return false;
    });
    if (isWritten) quarantined += 1;
    return isWritten;
  };

  const storeEntries = async (entries: readonly BatchEntry[]): Promise<void> => {
    // If a write was retried, the journal may contain two identical copies of a record.
    const seen = new Set(done);
    const pending: BatchEntry[] = [];
    for (const entry of entries) {
      const { id } = entry.call.metadata;
      if (!seen.has(id)) pending.push(entry);
      seen.add(id);
    }
    for (const batch of toBatches(pending, textBytes, maxBatchBytes)) await storeBatch(batch);
    done.clear();
  };

  return {
    /**
     * Stores the settled calls among the records and returns them. Passes the other records to `observe`. After an
     * error, call this again with the same frames, and it continues with the calls that haven't been stored.
     */
    async storeFrames(frames: readonly Frame[], observe: (record: JournalRecord) => void = () => undefined): Promise<SettledCall[]> {
      const entries: BatchEntry[] = [];
      for (const frame of frames) {
        const record = decodeRecord(frame);
        if (record.kind === 'settled') entries.push({ call: record.call, encode: () => frame.raw });
        else if (record.kind !== 'unreadable') observe(record);
        else {
          const inQuarantine = await addToQuarantine(record.callId, frame.raw);
          rejected += 1;
          logger.error({ call: record.callId, inQuarantine }, 'journal record not readable by this version');
        }
      }
      await storeEntries(entries);
      return entries.map(({ call }) => call);
    },
    /**
     * Stores calls whose `settled` record is in the journal. You can call this again after an error, like
     * `storeFrames`.
     */
    storeSettled: (calls: readonly SettledCall[]): Promise<void> => storeEntries(calls.map((call) => ({ call, encode: encodeSettled }))),
    /** Stores calls that have no `settled` record. */
    storeAll: (calls: readonly SettledCall[]): Promise<void> => storeEntries(calls.map((call) => ({ call, encode: null }))),
    counts: (): BatchCounts => ({ stored, quarantined, rejected }),
  };
}

function encodeSettled(call: SettledCall): Buffer {
  return Buffer.concat(encodeRecord({ kind: 'settled', call }));
}

function textBytes({ call }: BatchEntry): number {
  return call.content?.request.length ?? 0;
}

/**
 * SQLSTATE classes of errors that a record can cause: cardinality violations (21), data exceptions (22), constraint
 * violations (23), check option violations (44) and program limits, e.g. a value that is too large for an index (54).
 * All other classes point to the database or the gateway, e.g. connections, permissions, a missing table, internal
 * errors and damaged indexes (XX), unsupported features (0A) and exceptions raised by triggers (P0). Retries succeed
 * once somebody has fixed the cause, so until then no record may lose its text.
 */
const dataErrors = /^(?:21|22|23|44|54)[0-9A-Z]{3}$/;
const sqlState = /^[0-9A-Z]{5}$/;
const systemError = /^E[A-Z]+$/;

/**
 * Reports whether the data caused the error, so that a retry would fail too. Errors without an SQLSTATE come from code
 * that processes the data.
 */
export function isDataError(error: unknown): boolean {
  if (isConnectionError(error)) return false;
  const code = errorCode(error);
  if (typeof code !== 'string') return true;
  return dataErrors.test(code) || !(sqlState.test(code) || systemError.test(code));
}
