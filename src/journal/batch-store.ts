/**
 * Stores settled calls in batches, one transaction each. Used for the journal of this process and for those of dead ones.
 *
 * A fault of the database (gone, full, a missing table, a deadlock) is thrown: the caller tries again later. A fault in the data is not:
 * the batch is halved until the bad record stands alone; its money is then stored without its text, and the record as it was goes to
 * the quarantine. So one bad record never stops the others.
 */
import type { SettledCall } from '../core/call.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database, Queries } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { Frame } from './frame.ts';
import { billingFields } from './parked-calls.ts';
import type { Quarantine } from './quarantine.ts';
import { sanitizeCall, stripText } from './sanitize-call.ts';

/** What stores a batch in the transaction `tx`; must be idempotent by call id. */
export type StoreCalls = (tx: Queries, calls: readonly SettledCall[]) => Promise<unknown>;

export interface BatchStoreOptions {
  readonly database: Database;
  readonly store: StoreCalls;
  readonly quarantine: Quarantine;
  readonly logger: Logger;
  readonly faultPoint: HitFailpoint;
  /** Told of each batch that is in the database; of each call once, also where what was to be stored with it has to come again. */
  readonly onStored?: (calls: readonly SettledCall[]) => void;
  /** Told of a call of which not even the money could be stored. */
  readonly onRejected?: (call: SettledCall) => void;
}

/** A settled call and its frame in the journal; null for one that was made up (`recover.ts`). */
export interface BatchEntry {
  readonly call: SettledCall;
  readonly frame: Frame | null;
}

export interface BatchCounts {
  readonly stored: number;
  /** Records that went to the quarantine. */
  readonly quarantined: number;
  /** Of these, calls whose money could not be stored either. */
  readonly rejected: number;
}

export interface BatchStore {
  /** What it throws in the middle of, it goes on with when the same entries come again. */
  storeAll(entries: readonly BatchEntry[]): Promise<void>;
  /** For a record that is no record of this version. */
  quarantineUnreadable(callId: string | null, frame: Frame): Promise<void>;
  counts(): BatchCounts;
}

/** Bounded for PGlite, where a statement holds up the event loop (decisions 1). */
const batchSize = 500;
/** Text is read and hashed on the event loop before it is stored: of a second call only what fits into this beside the first. */
const maxBatchBytes = 4 * 1_024 * 1_024;

export function createBatchStore({
  database,
  store,
  quarantine,
  logger,
  faultPoint: failpoint,
  onStored,
  onRejected,
}: BatchStoreOptions): BatchStore {
  /** Ids of the calls that are done with, while others that came with them are not. */
  const done = new Set<string>();
  let stored = 0;
  let quarantined = 0;
  let rejected = 0;

  const commit = async (calls: readonly SettledCall[]): Promise<void> => {
    await database.transaction(async (tx) => {
      await lockProjectsShared(tx, calls);
      await store(tx, calls);
      failpoint('before commit');
    });
    for (const { facts } of calls) done.add(facts.id);
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

  /** The record that the database refuses: with all but its text, then with its money alone, then not at all. */
  const isolate = async (entry: BatchEntry, cause: unknown): Promise<void> => {
    const { call } = entry;
    if (entry.frame) await addToQuarantine(call.facts.id, entry.frame);
    for (const smaller of [{ ...call, content: null }, stripText(call)]) {
      try {
        await commit([smaller]);
        stored += 1;
        logger.error({ error: cause, call: call.facts.id }, 'a call was stored without its text: the database refused it');
        return;
      } catch (error) {
        if (!isDataError(error)) throw error;
      }
    }
    // A database that refuses everything (an engine that crashed has no SQLSTATE for it) is no reason to give up a record.
    await database.query('select 1');
    rejected += 1;
    done.add(call.facts.id);
    onRejected?.(call);
    logger.error({ error: cause, ...billingFields(call) }, 'a call could not be stored at all: the database refused even its money');
  };

  /** Fails only with the database: a full disk must not stop the drain, which is what makes room. */
  const addToQuarantine = async (callId: string | null, frame: Frame): Promise<void> => {
    await quarantine.addRecord(callId, frame.raw).catch((error: unknown) => {
      if (isConnectionError(error)) throw error;
      logger.error({ error, call: callId }, 'a record could not be put into the quarantine');
    });
    quarantined += 1;
  };

  return {
    async storeAll(entries) {
      // A record may stand twice in a journal (written again after a fault); the first is as good as the second.
      const unique = new Map(entries.toReversed().map((entry) => [entry.call.facts.id, { ...entry, call: sanitizeCall(entry.call) }]));
      const inOrder = [...unique.values()].toReversed().filter(({ call }) => !done.has(call.facts.id));
      for (const batch of splitBatches(inOrder)) await storeBatch(batch);
      done.clear();
    },
    async quarantineUnreadable(callId, frame) {
      await addToQuarantine(callId, frame);
      rejected += 1;
      logger.error({ call: callId }, 'a record of the journal cannot be read by this version; it is in the quarantine');
    },
    counts: () => ({ stored, quarantined, rejected }),
  };
}

/** Batches of at most `batchRows` calls and `batchBytes` of text; a longer text stands alone. */
function splitBatches(entries: readonly BatchEntry[]): BatchEntry[][] {
  const batches: BatchEntry[][] = [];
  let batch: BatchEntry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    const more = entry.call.content?.request.length ?? 0;
    if (batch.length > 0 && (batch.length >= batchSize || bytes + more > maxBatchBytes)) {
      batches.push(batch);
      batch = [];
      bytes = 0;
    }
    batch.push(entry);
    bytes += more;
  }
  return batch.length > 0 ? [...batches, batch] : batches;
}

/** Erasure takes the same lock exclusively: it waits for batches under way, and later ones see its fence. In order, against deadlocks. */
async function lockProjectsShared(tx: Queries, calls: readonly SettledCall[]): Promise<void> {
  const projectIds = [...new Set(calls.map((call) => call.facts.projectId))].toSorted();
  await tx.query(
    `select pg_advisory_xact_lock_shared(hashtextextended(project.id, 0))
       from unnest($1::text[]) with ordinality as project (id, position)
      order by project.position`,
    [projectIds],
  );
}

/**
 * Errors of the operating system, and SQLSTATE classes that say nothing about the data: connection, transaction and lock states,
 * resources, the operator, the system, rights, and a schema that does not fit (42: then no record could be stored, and waiting for the
 * migration is right).
 */
const environmentErrors = /^E[A-Z]+$|^(?:08|25|26|28|2D|34|3B|3D|3F|40|42|53|55|57|58|F0)[0-9A-Z]{3}$/;

/** True when storing again would fail again, because of what is to be stored. An error without SQLSTATE was thrown by our own reading of it. */
export function isDataError(error: unknown): boolean {
  if (isConnectionError(error)) return false;
  const state = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof state !== 'string' || !environmentErrors.test(state);
}
