/**
 * A process's own part of each erasure: it forgets what it holds of the subject (cached answers, calls under way) at once, then sees that
 * nothing of its journal is older than the fence, and says so in the database (`erasure_processes`), where the workflow waits for it.
 *
 * It learns of erasures by NOTIFY, and reads those that are not done at its start and after a lost connection. What fails is tried again:
 * the database or the disk may be away. All of it is harmless when it is done twice.
 */
import type { CallFacts } from '../../core/call.ts';
import type { Database } from '../../db/database.ts';
import { type Erasure, erasuresChannel } from './erase.ts';
import type { Forgotten } from './erasure-report.ts';
import { sha256OfSubject } from './tombstones.ts';

/** What identifies whose data goes, and until when. */
export type Fence = Pick<Erasure, 'id' | 'projectId' | 'sha256' | 'erasedAt'>;

export interface KeepErasuresOptions {
  readonly database: Database;
  /** Id of the journal. */
  readonly process: string;
  /** Forgets kept answers; returns how many. */
  readonly dropCached: (projectId: string, subjectSha256: string) => number;
  /** Makes open calls forget their subject and text; returns how many. */
  readonly forgetOpen: (isMeant: (facts: CallFacts) => boolean) => number;
  /** Stores and deletes all that lies on this machine's disk from before now. False or an error: not yet. */
  readonly clearDisk: (fences: readonly Fence[]) => Promise<boolean>;
  readonly logger: { warn(fields: Readonly<Record<string, unknown>>, message: string): void };
  readonly retryMs?: number;
}

export interface KeepErasures {
  /** Forgets at once what this process holds; the rest goes on in the background. */
  keep(fence: Fence): Forgotten;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createKeepErasures(options: KeepErasuresOptions): KeepErasures {
  const { database, process, dropCached, forgetOpen, clearDisk, logger, retryMs = 1_000 } = options;
  /** Those whose end is not written yet. */
  const pending = new Map<string, { readonly fence: Fence; readonly forgotten: Forgotten }>();
  let mustRead = true;
  let timer: NodeJS.Timeout | null = null;
  let working: Promise<void> | null = null;
  let isAway = false;
  let isStopped = false;
  let listening: { stop(): Promise<void> } | null = null;

  const keep = (fence: Fence): Forgotten => {
    const known = pending.get(fence.id);
    if (known) return known.forgotten;
    const forgotten = { cacheEntries: dropCached(fence.projectId, fence.sha256.toString('hex')), openCalls: forgetOpen(isBehind(fence)) };
    pending.set(fence.id, { fence, forgotten });
    schedule(0);
    return forgotten;
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
    isAway = false;
    if (mustRead || pending.size > 0) schedule(isFinished ? 0 : retryMs);
  };

  const failed = (error: unknown): void => {
    working = null;
    if (!isAway && !isStopped) logger.warn({ error }, 'an erasure cannot be finished by this process yet; trying again');
    isAway = true;
    schedule(retryMs);
  };

  /** One round over all that is pending. False: not all of it is finished. */
  const work = async (): Promise<boolean> => {
    if (mustRead) {
      mustRead = false;
      try {
        for (const fence of await readOpen()) keep(fence);
      } catch (error) {
        mustRead = true;
        throw error;
      }
    }
    const batch = [...pending.values()];
    if (batch.length === 0) return true;
    await noteForgotten(batch);
    if (!(await clearDisk(batch.map(({ fence }) => fence)))) return false;
    await database.query(
      `update erasure_processes set drained_at = now() where process = $1::uuid and erasure_id = any ($2::uuid[]) and drained_at is null`,
      [process, batch.map(({ fence }) => fence.id)],
    );
    for (const { fence } of batch) pending.delete(fence.id);
    return true;
  };

  const noteForgotten = async (batch: readonly { readonly fence: Fence; readonly forgotten: Forgotten }[]): Promise<void> => {
    await database.query(
      `insert into erasure_processes (erasure_id, process, cache_entries, open_calls)
       select new.erasure_id, $1::uuid, new.cache_entries, new.open_calls
         from unnest($2::uuid[], $3::integer[], $4::integer[]) as new (erasure_id, cache_entries, open_calls)
        where exists (select 1 from erasures where id = new.erasure_id)
       on conflict do nothing`,
      [
        process,
        batch.map(({ fence }) => fence.id),
        batch.map(({ forgotten }) => forgotten.cacheEntries),
        batch.map(({ forgotten }) => forgotten.openCalls),
      ],
    );
  };

  const readOpen = (): Promise<Fence[]> =>
    database.query<Fence>(
      `select id, project_id as "projectId", subject_sha256 as sha256, erased_at as "erasedAt"
         from erasures
        where state <> 'done'
          and not exists (select 1 from erasure_processes told
                           where told.erasure_id = erasures.id and told.process = $1::uuid and told.drained_at is not null)
        order by id`,
      [process],
    );

  const readSoon = (): void => {
    mustRead = true;
    schedule(0);
  };

  return {
    keep,
    async start() {
      listening = await database.listen(erasuresChannel, readSoon, readSoon);
      readSoon();
    },
    async stop() {
      isStopped = true;
      if (timer) clearTimeout(timer);
      await listening?.stop();
      await working;
    },
  };
}

/** Calls of the subject that began before the fence. */
function isBehind({ projectId, sha256, erasedAt }: Fence): (facts: CallFacts) => boolean {
  return ({ projectId: of, memory: { subject }, startedAt }) =>
    of === projectId && subject !== null && startedAt <= erasedAt.getTime() && sha256OfSubject(subject).equals(sha256);
}
