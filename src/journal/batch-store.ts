/**
 * Stores settled calls in batches, with one transaction per batch. Used by the drain and by recovery.
 *
 * If the database itself fails (e.g. it's unavailable or full, a table is missing, an index is damaged, or there's a
 * deadlock), this throws and the caller retries. If the data is the problem, we split the batch in half until we've
 * isolated the bad record. We store that record's tokens and cost without its text and move the original to the
 * quarantine, so that one bad record never blocks the others. If the lock of a project is the problem, the drain stores
 * the batch project by project, and sets aside those that it can't store (`set-aside.ts`).
 */
import type { SettledCall } from '../core/call.ts';
import { countNewBytes } from '../core/repeated-parts.ts';
import type { Database, Queries } from '../db/database.ts';
import { isLockTimeout, lockProject } from '../db/locks.ts';
import { toBatches } from '../db/row-batches.ts';
import type { Logger } from '../observability/logger.ts';
import { traceBatch } from '../observability/tracing.ts';
import { isDataError } from './data-errors.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { JournalFileSystem } from './file-system.ts';
import type { Frame } from './frame.ts';
import { createLockTimeouts, type Lane, type ReaderLane } from './lock-timeouts.ts';
import { billingFields, callFields } from './parked-calls.ts';
import type { IsErased, Quarantine } from './quarantine.ts';
import { decodeRecord, encodeRecord, type JournalRecord } from './record.ts';
import { createRejectedRecords, type UnreadableRecord } from './rejected-records.ts';
import { sanitizeCall, stripText } from './sanitize-call.ts';

/**
 * Stores a batch in the transaction `tx`. Must be idempotent, i.e. calls that have already been stored don't change
 * anything.
 */
export type StoreCalls = (tx: Queries, calls: readonly SettledCall[]) => Promise<unknown>;

/**
 * Runs before the transaction of each batch. Anything that isn't about the database belongs here, because we shouldn't
 * wait for other things within the transaction.
 */
export type BeforeStore = (calls: readonly SettledCall[]) => Promise<void>;

/** Options that the drain and recovery share. */
export interface StoringOptions {
  readonly dataDir: string;
  readonly database: Database;
  readonly store: StoreCalls;
  readonly beforeStore?: BeforeStore;
  readonly logger: Logger;
  /** Tells whether a record's subject was erased after the call began. We don't quarantine such records. */
  readonly isErased?: IsErased;
  readonly files?: JournalFileSystem;
  readonly failpoint?: HitFailpoint;
}

export interface BatchStoreOptions {
  readonly database: Database;
  readonly store: StoreCalls;
  readonly beforeStore?: BeforeStore | undefined;
  readonly quarantine: Quarantine;
  readonly logger: Logger;
  readonly failpoint: HitFailpoint;
  /**
   * Projects whose calls aren't stored together with others. If this isn't set, a project that is locked for too long
   * fails the batch.
   */
  readonly setAside?: SetAsideProjects;
  /**
   * Called after each commit. Each call is reported exactly once, even if its batch has to be stored again because of
   * another call.
   */
  readonly onStored?: ((calls: readonly SettledCall[]) => void) | undefined;
  /** Called if we can't store a call at all, not even its tokens and cost. */
  readonly onRejected?: ((call: SettledCall) => void) | undefined;
}

interface SetAsideProjects {
  has(projectId: string): boolean;
  /** True if no more projects can be set aside. We then wait for locks until the statement timeout. */
  isFull(): boolean;
  /** True if this part of a record contains the id of a project that's set aside. */
  isMentionedIn(meta: Buffer): boolean;
  /** Called if a lock of this project was held for too long. */
  add(projectId: string): void;
}

interface BatchEntry {
  readonly call: SettledCall;
  /**
   * Encodes the call as a journal record, so that we can quarantine it if the database rejects it. Null for calls that
   * were settled by `recover.ts`, because the journal has no `settled` record for them.
   */
  readonly encode: ((call: SettledCall) => Buffer) | null;
  /** True if the record refers to text that isn't in its segment. */
  readonly isIncomplete?: boolean;
}

export interface BatchCounts {
  readonly stored: number;
  readonly quarantined: number;
  readonly rejected: number;
}

/** A batch is limited in bytes as well as in rows, because its texts are parsed and hashed on the event loop. */
export const maxBatchBytes = 4 * 1_024 * 1_024;

export function createBatchStore(options: BatchStoreOptions) {
  const { database, store, beforeStore, quarantine, logger, failpoint, setAside, onStored, onRejected } = options;
  const rejectedRecords = createRejectedRecords(quarantine, logger);
  const lockTimeouts = createLockTimeouts(setAside);
  /**
   * The ids of calls that have been stored or rejected. If the same calls are passed to `storeEntries` again, either
   * after an error or because their project was set aside, we skip these. We forget them once all calls of that batch
   * are done.
   */
  const done = new Set<string>();
  /** The ids of calls that are already in the quarantine, in case we have to store them again. */
  const inQuarantine = new Set<string>();
  let stored = 0;
  let rejected = 0;

  const isSetAside = ({ metadata }: SettledCall, lane: Lane): boolean => lane === 'shared' && setAside?.has(metadata.projectId) === true;

  const commit = async (unsanitized: readonly SettledCall[], lane: Lane): Promise<void> => {
    // Calls from memory haven't been validated. If one of their values has the wrong type, `sanitizeCall` may throw.
    const calls = unsanitized.map(sanitizeCall);
    await beforeStore?.(calls);
    const timeoutMs = lockTimeouts.timeoutOf(lane);
    let startedAt = 0;
    await traceBatch(
      calls.map(({ metadata }) => metadata.trace),
      () =>
        database.transaction(
          async (tx) => {
            await lockProject(tx, [...new Set(calls.map(({ metadata }) => metadata.projectId))], 'shared');
            startedAt = performance.now();
            await store(tx, calls);
            failpoint('before commit');
          },
          timeoutMs === null ? undefined : `set local lock_timeout = ${timeoutMs}`,
        ),
    );
    if (lane === 'shared' && timeoutMs !== null) lockTimeouts.addBatch(performance.now() - startedAt);
    for (const { metadata } of calls) done.add(metadata.id);
    onStored?.(calls);
  };

  const storeBatch = async (all: readonly BatchEntry[], lane: Lane): Promise<void> => {
    const entries = all.filter(({ call }) => !isSetAside(call, lane));
    const [first] = entries;
    if (!first) return;
    try {
      failpoint('before store');
      await commit(
        entries.map(({ call }) => call),
        lane,
      );
      failpoint('after store');
      stored += entries.length;
    } catch (error) {
      if (isSharedLockTimeout(error, lane)) return storeByProject(entries);
      if (!isDataError(error)) throw error;
      if (entries.length === 1) return isolate(first, error, lane);
      const middle = Math.ceil(entries.length / 2);
      await storeBatch(entries.slice(0, middle), lane);
      await storeBatch(entries.slice(middle), lane);
    }
  };

  const isSharedLockTimeout = (error: unknown, lane: Lane): boolean => lane === 'shared' && setAside !== undefined && isLockTimeout(error);

  /** After a lock timeout, finds the locked projects and sets them aside. */
  const storeByProject = async (entries: readonly BatchEntry[]): Promise<void> => {
    const byProject = Map.groupBy(entries, ({ call }) => call.metadata.projectId);
    for (const [projectId, ofProject] of byProject) {
      if (ofProject.length === entries.length) setAside?.add(projectId);
      else await storeBatch(ofProject, 'shared');
    }
  };

  /**
   * Stores a rejected record without its prompt and response, and if that doesn't help, without any text at all. If the
   * database still rejects it, we give up on the record.
   */
  const isolate = async (entry: BatchEntry, cause: unknown, lane: Lane): Promise<void> => {
    const { call } = entry;
    const { id } = call.metadata;
    if (entry.encode && !inQuarantine.has(id) && (await rejectedRecords.keep(id, entry.encode(call)))) inQuarantine.add(id);
    for (const smaller of [{ ...call, content: null }, stripText(call)]) {
      try {
        await commit([smaller], lane);
        stored += 1;
        logger.error({ err: cause, ...callFields(call.metadata) }, 'database rejected the text of a call; call stored without text');
        return;
      } catch (error) {
        if (isSharedLockTimeout(error, lane)) return storeByProject([entry]);
        if (!isDataError(error)) throw error;
      }
    }
    // This may not be the record's fault. If the embedded database has crashed, every statement fails with an error
    // that has no SQLSTATE. In that case this query throws as well, so we keep the record and retry.
    await database.query('select 1');
    rejected += 1;
    done.add(id);
    onRejected?.(call);
    logger.error({ err: cause, ...billingFields(call) }, 'database rejected a call; call not stored');
  };

  const storeEntries = async (
    entries: readonly BatchEntry[],
    unreadable: readonly UnreadableRecord[] = [],
    lane: Lane = 'shared',
  ): Promise<void> => {
    // If a write was retried, the journal contains two copies of a record.
    const seen = new Set(done);
    const pending: BatchEntry[] = [];
    for (const entry of entries) {
      const { id } = entry.call.metadata;
      if (!seen.has(id)) pending.push(entry);
      seen.add(id);
    }
    for (const batch of toBatches(pending, textBytes, maxBatchBytes)) await storeBatch(batch, lane);
    // If a project has been set aside in the meantime, we'll get its calls again.
    const finished = entries.filter(({ call }) => !isSetAside(call, lane));
    for (const { call, encode, isIncomplete } of finished) {
      const { id } = call.metadata;
      if (!isIncomplete || inQuarantine.has(id)) continue;
      await rejectedRecords.reportIncomplete(call, encode?.(call) ?? null);
      inQuarantine.add(id);
    }
    for (const record of unreadable) {
      if (lane !== 'shared' || !setAside?.isMentionedIn(record.frame.meta)) await rejectedRecords.keepUnreadable(record);
    }
    // If anything above throws, we'll get the same calls again, so only forget them now.
    for (const { call } of finished) {
      done.delete(call.metadata.id);
      inQuarantine.delete(call.metadata.id);
    }
  };

  return {
    /**
     * Stores the settled calls in `frames` and returns them. Other records are passed to `observe`. If this throws,
     * call it again with the same frames, and it continues with those calls that aren't stored yet.
     */
    async storeFrames(frames: readonly Frame[], observe?: (record: JournalRecord) => void): Promise<SettledCall[]> {
      const entries: BatchEntry[] = [];
      const unreadable: UnreadableRecord[] = [];
      for (const frame of frames) {
        const record = decodeRecord(frame);
        if (record.kind === 'settled') entries.push({ ...record, encode: () => frame.raw });
        else if (record.kind === 'unreadable') unreadable.push({ callId: record.callId, frame });
        else observe?.(record);
      }
      await storeEntries(entries, unreadable);
      return entries.map(({ call }) => call);
    },
    /** Stores the calls of a project that's set aside. If this throws, call it again with the same frames. */
    async storeFramesOf(projectId: string, frames: readonly Frame[], lane: ReaderLane): Promise<void> {
      // We only need to decode records that mention the project.
      const records = frames.filter(({ meta }) => meta.includes(projectId)).map((frame) => ({ ...decodeRecord(frame), frame }));
      const entries = records.flatMap((record): BatchEntry[] => {
        if (record.kind !== 'settled' || record.call.metadata.projectId !== projectId) return [];
        return [{ ...record, encode: () => record.frame.raw }];
      });
      const unreadable = records.filter((record) => record.kind === 'unreadable');
      await storeEntries(entries, unreadable, lane);
    },
    /**
     * Stores calls whose `settled` record is in the journal. Like `storeFrames`, this can be called again after an
     * error.
     */
    storeSettled: (calls: readonly SettledCall[]): Promise<void> => storeEntries(calls.map((call) => ({ call, encode: encodeSettled }))),
    /** Stores calls that have no `settled` record in the journal. */
    storeAll: (calls: readonly SettledCall[]): Promise<void> => storeEntries(calls.map((call) => ({ call, encode: null }))),
    counts(): BatchCounts {
      const { quarantined, unreadable } = rejectedRecords.counts();
      return { stored, quarantined, rejected: rejected + unreadable };
    },
  };
}

function encodeSettled(call: SettledCall): Buffer {
  return Buffer.concat(encodeRecord({ kind: 'settled', call }));
}

/**
 * Returns how many bytes of text we have to parse and hash for this call. Text that an earlier request contained
 * doesn't count, because we don't process it again.
 */
function textBytes({ call }: BatchEntry): number {
  return call.content ? countNewBytes(call.content.request) : 0;
}
