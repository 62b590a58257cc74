/**
 * Applies erasures in one process. We immediately purge the caches and redact calls in flight. After that we drain the
 * journals and report it in `erasure_processes`, where the workflow waits for it.
 *
 * NOTIFY tells us about new erasures, and at startup we load all that are unfinished. After a notification or a lost
 * connection, we also load finished erasures that began since the last load, because an erasure doesn't wait for a
 * process that was cut off for a minute. Failed steps are retried, so each step can run twice.
 */

import { createBackgroundLoop, type NextRun } from '../../core/background-loop.ts';
import type { CallMetadata } from '../../core/call.ts';
import { minIdAt } from '../../core/ids.ts';
import { hashSubject } from '../../core/subject.ts';
import type { Database } from '../../db/database.ts';
import { toColumns } from '../../db/row-batches.ts';
import type { Logger } from '../../observability/logger.ts';
import { erasuresChannel } from './erase.ts';
import type { LocalPurge } from './erasure-report.ts';
import type { Tombstone } from './tombstones.ts';

export interface ErasureListenerOptions {
  readonly database: Database;
  /** The id of this process in the journal. */
  readonly process: string;
  readonly purgeCache: (projectId: string, subjectSha256: string) => number;
  /** Redacts the subject and text of matching calls in flight, and returns how many calls matched. */
  readonly redactInFlight: (matches: (call: CallMetadata) => boolean) => number;
  /** Drains the journals of this host and deletes their records. Resolves to false if some records are left. */
  readonly drainJournals: (tombstones: readonly Tombstone[]) => Promise<boolean>;
  readonly logger: Pick<Logger, 'warn'>;
  readonly retryMs?: number;
}

/**
 * The transaction of an erasure never takes longer than this. The id of an erasure contains the time at which its
 * transaction began, but we only see the row after the commit. So to find everything that was committed since the last
 * reload, we have to search for ids from this long before it.
 */
const longestErasureMs = 3_600_000;

export function createErasureListener(options: ErasureListenerOptions) {
  const { database, process, purgeCache, redactInFlight, drainJournals, logger, retryMs = 1_000 } = options;
  const pending = new Map<string, { readonly tombstone: Tombstone; readonly purged: LocalPurge }>();
  let mustReload = true;
  /** Database time of the last reload. Everything that was committed before then has been loaded. */
  let readAt: Date | null = null;
  let subscription: { stop(): Promise<void> } | null = null;

  const purge = (tombstone: Tombstone): LocalPurge => {
    const existing = pending.get(tombstone.id);
    if (existing) return existing.purged;
    const { projectId, sha256 } = tombstone;
    const purged = {
      cacheEntries: purgeCache(projectId, sha256.toString('hex')),
      openCalls: redactInFlight(isBeforeTombstone(tombstone)),
    };
    pending.set(tombstone.id, { tombstone, purged });
    return purged;
  };

  const run = async (): Promise<NextRun> => {
    if (mustReload) {
      mustReload = false;
      try {
        for (const tombstone of await loadMissed()) purge(tombstone);
      } catch (error) {
        mustReload = true;
        throw error;
      }
    }
    const batch = [...pending.values()];
    if (batch.length === 0) return 'idle';
    await recordPurges(batch.map(({ tombstone: { id }, purged }) => ({ id, ...purged })));
    if (!(await drainJournals(batch.map(({ tombstone }) => tombstone)))) return retryMs;
    await database.query(
      `update erasure_processes set drained_at = now() where process = $1::uuid and erasure_id = any ($2::uuid[]) and drained_at is null`,
      [process, batch.map(({ tombstone }) => tombstone.id)],
    );
    for (const { tombstone } of batch) pending.delete(tombstone.id);
    return 'idle';
  };

  const loop = createBackgroundLoop({
    run,
    intervalMs: null,
    backoff: { initialMs: retryMs, factor: 1, maxMs: retryMs },
    onFirstFailure: (err) => logger.warn({ err }, 'erasure cleanup failed, retrying'),
  });

  const recordPurges = async (purges: readonly (LocalPurge & { readonly id: string })[]): Promise<void> => {
    await database.query(
      `insert into erasure_processes (erasure_id, process, cache_entries, open_calls)
       select new.erasure_id, $1::uuid, new.cache_entries, new.open_calls
         from unnest($2::uuid[], $3::integer[], $4::integer[]) as new (erasure_id, cache_entries, open_calls)
        where exists (select 1 from erasures where id = new.erasure_id)
       on conflict do nothing`,
      [process, ...toColumns(purges, 'id', 'cacheEntries', 'openCalls')],
    );
  };

  const loadMissed = async (): Promise<Tombstone[]> => {
    const [clock] = await database.query<{ now: Date }>('select now()');
    const missed = await database.query<Tombstone>(
      `select id, project_id as "projectId", subject_sha256 as sha256, erased_at as "erasedAt"
         from erasures
        where (state <> 'done' or id >= $2::uuid)
          and not exists (select 1 from erasure_processes report
                           where report.erasure_id = erasures.id and report.process = $1::uuid and report.drained_at is not null)
        order by id`,
      [process, readAt && minIdAt(readAt.getTime() - longestErasureMs)],
    );
    readAt = clock?.now ?? null;
    return missed;
  };

  const reload = (): void => {
    mustReload = true;
    loop.wake();
  };

  return {
    /** Purges the caches of this process immediately, and drains its journals in the background. */
    apply(tombstone: Tombstone): LocalPurge {
      const purged = purge(tombstone);
      loop.wake();
      return purged;
    },
    async start(): Promise<void> {
      subscription = await database.listen(erasuresChannel, reload, reload);
      reload();
    },
    async stop(): Promise<void> {
      const stopped = loop.stop();
      await subscription?.stop();
      await stopped;
    },
  };
}

function isBeforeTombstone({ projectId, sha256, erasedAt }: Tombstone): (call: CallMetadata) => boolean {
  return ({ projectId: callProjectId, memory: { subject }, startedAt }) =>
    callProjectId === projectId && subject !== null && startedAt <= erasedAt.getTime() && hashSubject(subject).equals(sha256);
}
