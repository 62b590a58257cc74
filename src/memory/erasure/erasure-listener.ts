/**
 * A process's own part of each erasure: it forgets what it holds of the subject (cached answers, calls under way) at once, then sees that
 * nothing of its journal is older than the fence, and says so in the database (`erasure_processes`), where the workflow waits for it.
 *
 * It learns of erasures by NOTIFY, and reads those that are not done at its start and after a lost connection. What fails is tried again:
 * the database or the disk may be away. All of it is harmless when it is done twice.
 */
import type { CallMetadata } from '../../core/call.ts';
import type { Database } from '../../db/database.ts';
import { type Erasure, erasuresChannel } from './erase.ts';
import type { LocalPurge } from './erasure-report.ts';
import { hashSubject } from './tombstones.ts';

/** What identifies whose data goes, and until when. */
export type Tombstone = Pick<Erasure, 'id' | 'projectId' | 'sha256' | 'erasedAt'>;

export interface ErasureListenerOptions {
  readonly database: Database;
  /** Id of the journal. */
  readonly process: string;
  /** Forgets kept answers; returns how many. */
  readonly purgeCache: (projectId: string, subjectSha256: string) => number;
  /** Makes open calls forget their subject and text; returns how many. */
  readonly redactInFlight: (matches: (facts: CallMetadata) => boolean) => number;
  /** Stores and deletes all that lies on this machine's disk from before now. False or an error: not yet. */
  readonly flushJournal: (tombstones: readonly Tombstone[]) => Promise<boolean>;
  readonly logger: { warn(fields: Readonly<Record<string, unknown>>, message: string): void };
  readonly retryMs?: number;
}

export interface ErasureListener {
  /** Forgets at once what this process holds; the rest goes on in the background. */
  apply(tombstone: Tombstone): LocalPurge;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createErasureListener(options: ErasureListenerOptions): ErasureListener {
  const { database, process, purgeCache, redactInFlight, flushJournal, logger, retryMs = 1_000 } = options;
  /** Those whose end is not written yet. */
  const pending = new Map<string, { readonly tombstone: Tombstone; readonly purged: LocalPurge }>();
  let mustReload = true;
  let timer: NodeJS.Timeout | null = null;
  let working: Promise<void> | null = null;
  let hasFailed = false;
  let isStopped = false;
  let subscription: { stop(): Promise<void> } | null = null;

  const apply = (tombstone: Tombstone): LocalPurge => {
    const existing = pending.get(tombstone.id);
    if (existing) return existing.purged;
    const purged = {
      cacheEntries: purgeCache(tombstone.projectId, tombstone.sha256.toString('hex')),
      openCalls: redactInFlight(isBeforeTombstone(tombstone)),
    };
    pending.set(tombstone.id, { tombstone, purged });
    schedule(0);
    return purged;
  };

  const schedule = (delayMs: number): void => {
    if (isStopped || working) return;
    if (timer) clearTimeout(timer);
    timer = setTimeout(() => {
      timer = null;
      working = work().then(again, failed);
    }, delayMs);
    timer.unref();
  };

  const again = (isFinished: boolean): void => {
    working = null;
    hasFailed = false;
    if (mustReload || pending.size > 0) schedule(isFinished ? 0 : retryMs);
  };

  const failed = (error: unknown): void => {
    working = null;
    if (!hasFailed && !isStopped) logger.warn({ error }, 'an erasure cannot be finished by this process yet; trying again');
    hasFailed = true;
    schedule(retryMs);
  };

  /** One round over all that is pending. False: not all of it is finished. */
  const work = async (): Promise<boolean> => {
    if (mustReload) {
      mustReload = false;
      try {
        for (const tombstone of await loadOpen()) apply(tombstone);
      } catch (error) {
        mustReload = true;
        throw error;
      }
    }
    const batch = [...pending.values()];
    if (batch.length === 0) return true;
    await recordPurges(batch);
    if (!(await flushJournal(batch.map(({ tombstone: fence }) => fence)))) return false;
    await database.query(
      `update erasure_processes set drained_at = now() where process = $1::uuid and erasure_id = any ($2::uuid[]) and drained_at is null`,
      [process, batch.map(({ tombstone: fence }) => fence.id)],
    );
    for (const { tombstone: fence } of batch) pending.delete(fence.id);
    return true;
  };

  const recordPurges = async (batch: readonly { readonly tombstone: Tombstone; readonly purged: LocalPurge }[]): Promise<void> => {
    await database.query(
      `insert into erasure_processes (erasure_id, process, cache_entries, open_calls)
       select new.erasure_id, $1::uuid, new.cache_entries, new.open_calls
         from unnest($2::uuid[], $3::integer[], $4::integer[]) as new (erasure_id, cache_entries, open_calls)
        where exists (select 1 from erasures where id = new.erasure_id)
       on conflict do nothing`,
      [
        process,
        batch.map(({ tombstone: fence }) => fence.id),
        batch.map(({ purged: forgotten }) => forgotten.cacheEntries),
        batch.map(({ purged: forgotten }) => forgotten.openCalls),
      ],
    );
  };

  const loadOpen = (): Promise<Tombstone[]> =>
    database.query<Tombstone>(
      `select id, project_id as "projectId", subject_sha256 as sha256, erased_at as "erasedAt"
         from erasures
        where state <> 'done'
          and not exists (select 1 from erasure_processes told
                           where told.erasure_id = erasures.id and told.process = $1::uuid and told.drained_at is not null)
        order by id`,
      [process],
    );

  const reload = (): void => {
    mustReload = true;
    schedule(0);
  };

  return {
    apply,
    async start() {
      subscription = await database.listen(erasuresChannel, reload, reload);
      reload();
    },
    async stop() {
      isStopped = true;
      if (timer) clearTimeout(timer);
      await subscription?.stop();
      await working;
    },
  };
}

/** Calls of the subject that began before the fence. */
function isBeforeTombstone({ projectId, sha256, erasedAt }: Tombstone): (facts: CallMetadata) => boolean {
  return ({ projectId: callProjectId, memory: { subject }, startedAt }) =>
    callProjectId === projectId && subject !== null && startedAt <= erasedAt.getTime() && hashSubject(subject).equals(sha256);
}
