/**
 * Proves to the processes on all hosts that this one is alive: its row in `processes`, keyed by the id of its journal, is updated every
 * `intervalMs` with the database's time.
 *
 * The row is deleted when the process stops, or when the journal of a dead process is recovered (`deleteProcess`). Rows of hosts that never
 * return are deleted after `livenessTimeoutMs`, but only by a process that reached the database throughout that time: after an outage every
 * row is old.
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { Database, Queries } from '../db/database.ts';
import { withQueryTimeout } from '../db/query-timeout.ts';
import type { Logger } from '../observability/logger.ts';

export interface Heartbeat {
  /** Writes the row and keeps updating it; does not wait for the database. */
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
  /** Called when the row had been deleted, or after an outage: other processes may have considered this one dead. */
  readonly onReconnected?: () => void;
  readonly intervalMs?: number;
  readonly livenessTimeoutMs?: number;
}

export const defaultLivenessTimeoutMs = 60_000;

export function createHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { database, journalId, logger, onReconnected, intervalMs = 5_000, livenessTimeoutMs = defaultLivenessTimeoutMs } = options;
  /** Start of the current series of successful heartbeats. Null after a failure. */
  let healthySince: number | null = null;
  let hasBeaten = false;

  const write = async (): Promise<void> => {
    const [row] = await database.query<{ isNew: boolean }>(
      // `xmax` is zero in a row that this statement inserted.
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
      // If the row stays, other processes recognise by its age that this one is dead.
      await withQueryTimeout(database, deletion).catch((err: unknown) => logger.debug({ err }, 'process row not deleted'));
    },
  };
}

/** Deletes the row of a process that has stopped or whose journal is recovered. */
export async function deleteProcess(database: Queries, journalId: string): Promise<void> {
  await database.query('delete from processes where id = $1::uuid', [journalId]);
}

/**
 * Deletes the row of a process without a heartbeat within the last minute; returns false when it is alive. A heartbeat at the same moment waits
 * for `tx` (the row is inserted first, if missing, to be locked), and the process then learns that its row had been deleted.
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

/** Processes with a heartbeat within the last minute, oldest first. Includes a process that died less than a minute ago. */
export function listLiveProcesses(database: Queries): Promise<LiveProcess[]> {
  return database.query<LiveProcess>(
    `select id, started_at as "startedAt", heartbeat_at as "heartbeatAt" from processes
      where heartbeat_at >= now() - make_interval(secs => $1::double precision) order by started_at, id`,
    [defaultLivenessTimeoutMs / 1_000],
  );
}
