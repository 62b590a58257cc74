/** Reads all circuit breakers that aren't closed, in all projects, for the status of the whole deployment. */
import type { Queries } from '../db/database.ts';
import type { BreakerState } from '../failover/breaker.ts';

export interface OpenBreaker {
  /** Contains the member as well if the breaker is for a member of a pool (`<provider>/<member>`). */
  readonly provider: string;
  readonly state: Exclude<BreakerState, 'closed'>;
  /** In how many projects the breaker isn't closed. */
  readonly projects: number;
  readonly openedAt: number;
}

/**
 * Processes whose last heartbeat is older than `livenessTimeoutMs` don't count. The result can be slightly outdated,
 * because breakers are stored a moment after they change (shared-breakers.ts).
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
