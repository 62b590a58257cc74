/**
 * Tells the database, and through it all other processes on any host, that this process lives: a row of `processes` under the id of its
 * journal, written anew every `intervalMs` by one small statement, with the database's time. While the database is away nothing is written;
 * the row comes back by itself.
 *
 * A row goes when its process stops in order, or when the journal of a dead one is recovered (`forgetProcess`). What is left of hosts that are
 * gone for good is removed by whoever lives, after `staleMs`: but only by a process that had the database itself all that time. After an
 * outage every row is old, and none of them says anything.
 */

import type { Database, Queries } from '../db/database.ts';
import { withQueryTimeout } from '../db/query-timeout.ts';
import type { Logger } from '../observability/logger.ts';

export interface Heartbeat {
  /** Writes the row and goes on writing it; does not wait for the database. */
  start(): void;
  /** Takes the row away, if the database is there. */
  stop(): Promise<void>;
}

export interface LiveProcess {
  readonly id: string;
  readonly startedAt: Date;
  readonly heartbeatAt: Date;
}

export interface HeartbeatOptions {
  readonly database: Database;
  readonly journalId: string;
  readonly logger: Logger;
  /** The row was gone, or the database was: this process may have been taken for dead while it was cut off. */
  readonly onReconnected?: () => void;
  readonly intervalMs?: number;
  readonly livenessTimeoutMs?: number;
}

const defaultLivenessTimeoutMs = 60_000;

export function createHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { database, journalId, logger, onReconnected, intervalMs = 5_000, livenessTimeoutMs = defaultLivenessTimeoutMs } = options;
  let timer: NodeJS.Timeout | null = null;
  let beating: Promise<void> | null = null;
  let isUnavailable = false;
  /** Since when each beat was heard. */
  let healthySince: number | null = null;
  let hasBeaten = false;
  let isStopped = false;

  /** `xmax` of a row is zero where the statement has made it. */
  const write = async (): Promise<void> => {
    const [row] = await database.query<{ isNew: boolean }>(
      `insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())
       on conflict (id) do update set heartbeat_at = excluded.heartbeat_at
       returning xmax = 0 as "isNew"`,
      [journalId],
    );
    if (hasBeaten && (row?.isNew || isUnavailable)) onReconnected?.();
    hasBeaten = true;
  };

  const deleteStale = async (): Promise<void> => {
    await database.query('delete from processes where heartbeat_at < now() - make_interval(secs => $1::double precision)', [
      livenessTimeoutMs / 1_000,
    ]);
  };

  const beat = async (): Promise<void> => {
    try {
      await write();
      const now = performance.now();
      healthySince ??= now;
      if (now - healthySince >= livenessTimeoutMs) {
        await deleteStale();
        healthySince = now;
      }
      isUnavailable = false;
    } catch (error) {
      healthySince = null;
      if (!isUnavailable && !isStopped) logger.warn({ error }, 'the database does not hear that this process lives; trying again');
      isUnavailable = true;
    }
  };

  const beatAndAgain = (): void => {
    beating = beat().finally(() => {
      beating = null;
      if (isStopped) return;
      timer = setTimeout(beatAndAgain, intervalMs);
      timer.unref();
    });
  };

  return {
    start: beatAndAgain,
    async stop() {
      isStopped = true;
      if (timer) clearTimeout(timer);
      const deletion = Promise.resolve(beating).then(() => deleteProcess(database, journalId));
      // Without the database the others see by the row's age that it is over.
      await withQueryTimeout(database, deletion).catch((error: unknown) => logger.debug({ error }, 'the row of this process stays'));
    },
  };
}

/** A process is no more, and nothing of it is left to be done. */
export async function deleteProcess(database: Queries, journalId: string): Promise<void> {
  await database.query('delete from processes where id = $1::uuid', [journalId]);
}

/**
 * In the transaction `tx`: forgets a process that nobody has heard of within the last minute; false when it lives. One that is back at the same
 * moment waits for the transaction, and hears then that it was forgotten.
 */
export async function deleteIfStale(tx: Queries, journalId: string): Promise<boolean> {
  await tx.query(
    `insert into processes (id, started_at, heartbeat_at) values ($1::uuid, '-infinity', '-infinity') on conflict (id) do nothing`,
    [journalId],
  );
  const deleted = await tx.query(
    'delete from processes where id = $1::uuid and heartbeat_at < now() - make_interval(secs => $2::double precision) returning id',
    [journalId, defaultLivenessTimeoutMs / 1_000],
  );
  return deleted.length > 0;
}

/** Processes that were heard of within the last minute, the oldest first. A dead one counts until its journal is recovered. */
export function listLiveProcesses(database: Queries): Promise<LiveProcess[]> {
  return database.query<LiveProcess>(
    `select id, started_at as "startedAt", heartbeat_at as "heartbeatAt" from processes
      where heartbeat_at >= now() - make_interval(secs => $1::double precision) order by started_at, id`,
    [defaultLivenessTimeoutMs / 1_000],
  );
}
