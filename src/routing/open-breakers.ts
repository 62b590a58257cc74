/** Reads the circuit breakers of all projects that are open or half-open, for the status of the deployment. */
import type { Queries } from '../db/database.ts';
import type { BreakerState } from '../failover/breaker.ts';

export interface OpenBreaker {
  /** The provider, or `<provider>/<member>` if the breaker is for a pool member. */
  readonly provider: string;
  readonly state: Exclude<BreakerState, 'closed'>;
  readonly projects: number;
  readonly openedAt: number;
}

/**
 * Ignores processes without a heartbeat within `livenessTimeoutMs`. Results can be slightly outdated, because breakers
 * are stored shortly after they change (shared-breakers.ts).
 */
export async function readOpenBreakers(queries: Queries, livenessTimeoutMs: number): Promise<OpenBreaker[]> {
  const rows = await queries.query<Omit<OpenBreaker, 'openedAt' | 'state'> & { readonly isOpen: boolean; readonly openedAt: Date }>(
    `select b.provider, bool_or(b.state = 'open') as "isOpen", count(distinct b.project_id) as projects, min(b.opened_at) as "openedAt"
       from provider_breakers b join processes p on p.id = b.process
      where p.heartbeat_at >= now() - $1::double precision * interval '1 second'
      group by b.provider order by b.provider`,
    [livenessTimeoutMs / 1_000],
  );
  return rows.map(({ provider, isOpen, projects, openedAt }) => ({
    provider,
    state: isOpen ? 'open' : 'half_open',
    projects,
    openedAt: openedAt.getTime(),
  }));
}
