/**
 * Finds leases of dead processes whose journals haven't been recovered. Nobody can use their quota until the window
 * ends or an operator releases the leases (docs/architecture/ceilings.md#crashes-and-cut-off-processes).
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { Database, Queries } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';

export interface AbandonedLeasesOptions {
  readonly database: Database;
  readonly listLiveProcesses: () => Promise<readonly string[]>;
  readonly logger: Pick<Logger, 'error' | 'debug'>;
  readonly intervalMs?: number;
}

/**
 * Don't alert right away, because another process usually recovers the journal in less than a minute. It takes longer
 * if there's a large backlog or the host is restarting.
 */
const checksBeforeAlert = 3;
const checksBetweenAlerts = 60;

const leasesOfOpenWindows = `limit_leases l join limit_counters c on c.id = l.counter_id
      where l.amount > 0 and (c.window_end is null or c.window_end > now())`;

export function createAbandonedLeases({ database, listLiveProcesses, logger, intervalMs = 60_000 }: AbandonedLeasesOptions) {
  /** Counts the consecutive checks in which a dead process still had leases, by process id. */
  let seen: ReadonlyMap<string, number> = new Map();

  const loop = createBackgroundLoop({
    intervalMs,
    async run() {
      const holders = await database.query<{ process: string; leases: number }>(
        `select l.process, count(*)::integer as leases from ${leasesOfOpenWindows} group by l.process order by l.process`,
      );
      const live = new Set(await listLiveProcesses());
      const dead = holders.filter(({ process }) => !live.has(process));
      seen = new Map(dead.map(({ process }) => [process, (seen.get(process) ?? 0) + 1]));
      for (const { process, leases } of dead) {
        const checks = seen.get(process) ?? 0;
        if (checks < checksBeforeAlert || (checks - checksBeforeAlert) % checksBetweenAlerts !== 0) continue;
        logger.error({ process, leases, release: `gateway leases release ${process}` }, 'dead process still holds leases');
      }
      return 'idle';
    },
    onFirstFailure: (err) => logger.debug({ err }, 'failed to check leases of dead processes'),
  });

  return {
    start: loop.start,
    stop: loop.stop,
    /** Lists the ids of dead processes for which an alert has been logged. */
    list: (): string[] => [...seen].flatMap(([process, checks]) => (checks < checksBeforeAlert ? [] : process)),
  };
}

/**
 * Returns the value of a metric: the number of leases in open windows whose process hasn't sent a heartbeat for
 * `livenessTimeoutMs`.
 */
export async function countOwnerlessLeases(queries: Queries, livenessTimeoutMs: number): Promise<number> {
  const [row] = await queries.query<{ leases: number }>(
    `select count(*)::integer as leases
       from ${leasesOfOpenWindows}
        and not exists (
          select 1 from processes p
           where p.id = l.process and p.heartbeat_at >= now() - make_interval(secs => $1::double precision / 1000))`,
    [livenessTimeoutMs],
  );
  return row?.leases ?? 0;
}
