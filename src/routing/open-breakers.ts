/** Reads the circuit breakers of all projects that aren't closed, for the view of the whole deployment. */
import type { Queries } from '../db/database.ts';
import type { BreakerState } from '../failover/breaker.ts';

export interface OpenBreaker {
  /** The name of the provider, or `<provider>/<member>` for a member of a pool. */
  readonly provider: string;
  /** The worst state in any project and process. */
  readonly state: Exclude<BreakerState, 'closed'>;
  /** The number of projects whose breaker isn't closed. */
  readonly projects: number;
  readonly openedAt: number;
}

/**
 * `livenessTimeoutMs` is the age of the last heartbeat from which on we ignore a process. Breakers are stored soon after
 * their state changes (shared-breakers.ts).
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
