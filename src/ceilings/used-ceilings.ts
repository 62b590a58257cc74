/**
 * Counts the ceilings on calls and cost that are used up in their current window, or almost used up. This is exported
 * as a metric.
 */
import type { Queries } from '../db/database.ts';
import type { CounterScope } from './counters.ts';

export interface UsedCeilings {
  readonly scope: CounterScope;
  readonly ceiling: 'calls' | 'cost';
  /** Ceilings that are at 90 % or more, but not reached yet. */
  readonly near: number;
  readonly reached: number;
}

/**
 * Returns one row for each scope and ceiling that has at least one counter at 90 % or more. We leave out ceilings of 0
 * and ceilings per minute, because it's normal to reach those.
 */
export function countUsedCeilings(queries: Queries): Promise<UsedCeilings[]> {
  return queries.query<UsedCeilings>(
    `with limits as (
       select k.project_id, 'key' as holder, coalesce(k.counted_as, k.id)::text as holder_id, c.ceiling, c.window_kind, c.limit_value
         from key_ceilings c join virtual_keys k on k.id = c.key_id
        where c.ceiling in ('calls', 'cost') and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
       union all
       select a.project_id, 'source', a.source, l.ceiling, a.settings->'windows'->>l.ceiling,
              ((a.settings->'ceilings'->>l.ceiling)::numeric * l.unit)::bigint
         from applications a cross join (values ('calls', 1), ('cost', 1000000000)) as l (ceiling, unit)
        where a.settings->'ceilings'->>l.ceiling is not null
       union all
       select p.id, 'project', '', 'cost', 'month', ((p.settings->>'monthly_cap')::numeric * 1000000000)::bigint
         from projects p where p.settings->>'monthly_cap' is not null
     )
     select c.holder as scope, c.ceiling,
            (count(distinct c.id) filter (where c.settled < l.limit_value))::integer as near,
            (count(distinct c.id) filter (where c.settled >= l.limit_value))::integer as reached
       from limits l
       join limit_counters c on c.project_id = l.project_id and c.holder = l.holder and c.holder_id = l.holder_id
        and c.ceiling = l.ceiling and c.window_kind = l.window_kind
      where l.limit_value > 0 and c.settled >= 0.9 * l.limit_value
        and c.window_start <= now() and (c.window_end is null or c.window_end > now())
      group by 1, 2`,
  );
}
