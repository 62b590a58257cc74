/**
 * Shows the processes on all hosts that this one is alive. Every `intervalMs` we update a row in `processes` with the
 * database's current time. The row has the same id as the process's journal.
 *
 * The row is deleted when the process stops, or when the journal of a dead process is recovered (`deleteProcess`). If a
 * host never comes back, another process deletes the row after `livenessTimeoutMs`. A process only does that if it
 * could reach the database the whole time, because after an outage every row is old.
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { Database, Queries } from '../db/database.ts';
import { withQueryTimeout } from '../db/query-timeout.ts';
import type { Logger } from '../observability/logger.ts';

export interface Heartbeat {
  /** Inserts the row of this process and updates it regularly. Doesn't wait for the database. */
  start(): void;
  /** Deletes the row if the database is available. */
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
  /**
   * Called when we've reached the database again after an outage, and also if our row was missing. In both cases other
   * processes may have treated this one as dead.
   */
  readonly onReconnected?: () => void;
  readonly intervalMs?: number;
  readonly livenessTimeoutMs?: number;
}

export const defaultLivenessTimeoutMs = 60_000;

export function createHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { database, journalId, logger, onReconnected, intervalMs = 5_000, livenessTimeoutMs = defaultLivenessTimeoutMs } = options;
  /** The time since which every heartbeat has succeeded. Null after a failure. */
  let healthySince: number | null = null;
  let hasBeaten = false;

  const write = async (): Promise<void> => {
    const [row] = await database.query<{ isNew: boolean }>(
      // `xmax` is zero if this statement inserted the row rather than updating it.
      `insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())
       on conflict (id) do update set heartbeat_at = excluded.heartbeat_at
       returning xmax = 0 as "isNew"`,
      [journalId],
    );
    if (hasBeaten && (row?.isNew || loop.isFailing)) onReconnected?.();
    hasBeaten = true;
  };

  const deleteStale = async (): Promise<void> => {
    await database.query('delete from processes where heartbeat_at < now() - make_interval(secs => $1::double precision)', [
      livenessTimeoutMs / 1_000,
    ]);
  };

  const loop = createBackgroundLoop({
    intervalMs,
    async run() {
      await write();
      const now = performance.now();
      healthySince ??= now;
      if (now - healthySince >= livenessTimeoutMs) {
        await deleteStale();
        healthySince = now;
      }
      return 'idle';
    },
    onFirstFailure(err) {
      healthySince = null;
      logger.warn({ err }, 'process heartbeat failed; retrying');
    },
  });

  return {
    start: loop.start,
    async stop() {
      const deletion = loop.stop().then(() => deleteProcess(database, journalId));
      // We can ignore a failure. The row then stays behind with an old heartbeat, which tells other processes that this
      // one is gone.
      await withQueryTimeout(database, deletion).catch((err: unknown) => logger.debug({ err }, 'failed to delete process row'));
    },
  };
}

/** Deletes the row of a process that has stopped or whose journal has been recovered. */
export async function deleteProcess(database: Queries, journalId: string): Promise<void> {
  await database.query('delete from processes where id = $1::uuid', [journalId]);
}

/**
 * Deletes the row of a process that hasn't sent a heartbeat for a minute. Returns false if the process is alive.
 *
 * If there's no row, we insert one so that we have something to lock. A heartbeat that arrives now has to wait for
 * `tx`, and finds out afterwards that the row was deleted.
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

/** Lists the processes that sent a heartbeat within the last minute, oldest first. Some of them may have died since. */
export function listLiveProcesses(database: Queries): Promise<LiveProcess[]> {
  return database.query<LiveProcess>(
    `select id, started_at as "startedAt", heartbeat_at as "heartbeatAt" from processes
      where heartbeat_at >= now() - make_interval(secs => $1::double precision) order by started_at, id`,
    [defaultLivenessTimeoutMs / 1_000],
  );
}
