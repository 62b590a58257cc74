/**
 * Stores the states of circuit breakers, so that the status API and the console can show those of all processes.
 * Routing doesn't depend on this, or on the database, because it only uses the breakers of its own process.
 *
 * When a breaker changes its state, we write it to `provider_breakers`, and when it closes, we delete the row. That
 * happens in the background, with a single statement for all changes since the last write. As long as the database is
 * unavailable, changes wait in memory.
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
import { formatTime } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { BreakerReport, BreakerState, Breakers } from '../failover/breaker.ts';

interface SharedBreakersOptions {
  readonly database: Database;
  readonly statusDatabase: Database;
  readonly process: string;
  readonly livenessTimeoutMs: number;
  readonly breakers: Pick<Breakers, 'report'>;
  readonly onWriteFailure: (error: unknown) => void;
}

/** Returns the breaker of each provider. If running processes disagree, it has the worst state. */
export type ReadBreakers = (projectId: string, providers: readonly string[]) => Promise<BreakerReport[]>;

export interface SharedBreakers {
  /** Call this after a breaker has changed its state, so that the new state is soon written to the database. */
  changed(projectId: string, provider: string): void;
  readonly read: ReadBreakers;
  stop(): Promise<void>;
}

const backoff = { initialMs: 1_000, maxMs: 60_000 };

export function createSharedBreakers(options: SharedBreakersOptions): SharedBreakers {
  const { database, process, breakers, onWriteFailure } = options;
  let changes = new Map<string, Set<string>>();
  const add = (projectId: string, provider: string): void => {
    changes.set(projectId, (changes.get(projectId) ?? new Set()).add(provider));
  };

  const loop = createBackgroundLoop({
    intervalMs: null,
    backoff,
    onFirstFailure: onWriteFailure,
    async run() {
      const writing = changes;
      changes = new Map();
      const rows = [...writing].flatMap(([projectId, providers]) =>
        breakers.report(projectId, [...providers]).map((report) => ({ projectId, ...report })),
      );
      try {
        await writeBreakers(database, process, rows);
      } catch (error) {
        for (const { projectId, provider } of rows) add(projectId, provider);
        throw error;
      }
      return 'idle';
    },
  });

  return {
    changed(projectId, provider) {
      add(projectId, provider);
      // After a failed write, the loop retries by itself with a backoff, so don't wake it earlier.
      if (!loop.isFailing) loop.wake();
    },
    async read(projectId, providers) {
      const own = breakers.report(projectId, providers);
      const others = await readBreakersOfOthers(options, projectId);
      return own.map((report) => {
        const worst = others.filter(({ provider }) => provider === report.provider).reduce(worse, report);
        return report.cooling_until === undefined ? worst : { ...worst, cooling_until: report.cooling_until };
      });
    },
    stop: loop.stop,
  };
}

const severity: Readonly<Record<BreakerState, number>> = { closed: 0, half_open: 1, open: 2 };

/** If both breakers are in the same state, the one that will be probed later counts as worse. */
function worse(left: BreakerReport, right: BreakerReport): BreakerReport {
  if (right.state !== left.state) return severity[right.state] > severity[left.state] ? right : left;
  return Date.parse(right.retry_at ?? '') > Date.parse(left.retry_at ?? '') ? right : left;
}

async function writeBreakers(database: Database, process: string, rows: readonly (BreakerReport & { projectId: string })[]): Promise<void> {
  await database.query(
    `with changes as (
       select * from unnest($2::uuid[], $3::text[], $4::text[], $5::integer[], $6::timestamptz[], $7::timestamptz[])
         as changes (project_id, provider, state, failures, opened_at, retry_at)
     ), closed as (
       delete from provider_breakers b using changes c
        where b.process = $1::uuid and b.project_id = c.project_id and b.provider = c.provider and c.state = 'closed'
     ), abandoned as (
       delete from provider_breakers b
        where b.process <> $1::uuid and not exists (select 1 from processes p where p.id = b.process)
     )
     insert into provider_breakers (project_id, provider, process, state, failures, opened_at, retry_at)
     select project_id, provider, $1::uuid, state, failures, opened_at, retry_at from changes where state <> 'closed'
     on conflict (project_id, provider, process) do update
        set state = excluded.state, failures = excluded.failures, opened_at = excluded.opened_at, retry_at = excluded.retry_at`,
    [
      process,
      rows.map(({ projectId }) => projectId),
      rows.map(({ provider }) => provider),
      rows.map(({ state }) => state),
      rows.map(({ failures }) => failures),
      rows.map(({ opened_at: openedAt }) => openedAt),
      rows.map(({ retry_at: retryAt }) => retryAt),
    ],
  );
}

interface BreakerRow {
  readonly provider: string;
  readonly state: BreakerState;
  readonly failures: number;
  readonly openedAt: Date;
  readonly retryAt: Date;
}

async function readBreakersOfOthers(
  { statusDatabase: database, process, livenessTimeoutMs }: SharedBreakersOptions,
  projectId: string,
): Promise<BreakerReport[]> {
  const rows = await database.query<BreakerRow>(
    `select b.provider, b.state, b.failures, b.opened_at as "openedAt", b.retry_at as "retryAt"
       from provider_breakers b join processes p on p.id = b.process
      where b.project_id = $1::uuid and b.process <> $2::uuid and p.heartbeat_at >= now() - $3::double precision * interval '1 second'`,
    [projectId, process, livenessTimeoutMs / 1_000],
  );
  return rows.map(({ openedAt, retryAt, ...row }) => ({
    ...row,
    opened_at: formatTime(openedAt.getTime()),
    retry_at: formatTime(retryAt.getTime()),
  }));
}
