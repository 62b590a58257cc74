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
import { answerWithin } from '../db/query-timeout.ts';
import type { Logger } from '../observability/logger.ts';

export interface Presence {
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

export interface PresenceOptions {
  readonly database: Database;
  readonly journalId: string;
  readonly logger: Logger;
  /** The row was gone, or the database was: this process may have been taken for dead while it was cut off. */
  readonly onReturned?: () => void;
  readonly intervalMs?: number;
  readonly staleMs?: number;
}

const defaultStaleMs = 60_000;

export function createPresence(options: PresenceOptions): Presence {
  const { database, journalId, logger, onReturned, intervalMs = 5_000, staleMs = defaultStaleMs } = options;
  let timer: NodeJS.Timeout | null = null;
  let beating: Promise<void> | null = null;
  let isAway = false;
  /** Since when each beat was heard. */
  let heardSince: number | null = null;
  let wasHeard = false;
  let isStopped = false;

  /** `xmax` of a row is zero where the statement has made it. */
  const write = async (): Promise<void> => {
    const [row] = await database.query<{ isNew: boolean }>(
      `insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())
       on conflict (id) do update set heartbeat_at = excluded.heartbeat_at
       returning xmax = 0 as "isNew"`,
      [journalId],
    );
    if (wasHeard && (row?.isNew || isAway)) onReturned?.();
    wasHeard = true;
  };

  const removeStale = async (): Promise<void> => {
    await database.query('delete from processes where heartbeat_at < now() - make_interval(secs => $1::double precision)', [
      staleMs / 1_000,
    ]);
  };

  const beat = async (): Promise<void> => {
    try {
      await write();
      const now = performance.now();
      heardSince ??= now;
      if (now - heardSince >= staleMs) {
        await removeStale();
        heardSince = now;
      }
      isAway = false;
    } catch (error) {
      heardSince = null;
      if (!isAway && !isStopped) logger.warn({ error }, 'the database does not hear that this process lives; trying again');
      isAway = true;
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
      const leaving = Promise.resolve(beating).then(() => forgetProcess(database, journalId));
      // Without the database the others see by the row's age that it is over.
      await answerWithin(database, leaving).catch((error: unknown) => logger.debug({ error }, 'the row of this process stays'));
    },
  };
}

/** A process is no more, and nothing of it is left to be done. */
export async function forgetProcess(database: Queries, journalId: string): Promise<void> {
  await database.query('delete from processes where id = $1::uuid', [journalId]);
}

/**
 * In the transaction `tx`: forgets a process that nobody has heard of within the last minute; false when it lives. One that is back at the same
 * moment waits for the transaction, and hears then that it was forgotten.
 */
export async function forgetDead(tx: Queries, journalId: string): Promise<boolean> {
  await tx.query(
    `insert into processes (id, started_at, heartbeat_at) values ($1::uuid, '-infinity', '-infinity') on conflict (id) do nothing`,
    [journalId],
  );
  const gone = await tx.query(
    'delete from processes where id = $1::uuid and heartbeat_at < now() - make_interval(secs => $2::double precision) returning id',
    [journalId, defaultStaleMs / 1_000],
  );
  return gone.length > 0;
}

/** Processes that were heard of within the last minute, the oldest first. A dead one counts until its journal is recovered. */
export function listLive(database: Queries): Promise<LiveProcess[]> {
  return database.query<LiveProcess>(
    `select id, started_at as "startedAt", heartbeat_at as "heartbeatAt" from processes
      where heartbeat_at >= now() - make_interval(secs => $1::double precision) order by started_at, id`,
    [defaultStaleMs / 1_000],
  );
}
