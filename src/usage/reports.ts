/**
 * Reports on recorded calls: spend of a project, usage of a key, calls. They are read from the database, never from metrics. Routes wait for
 * the journal drain first, so that a client sees its preceding calls.
 *
 * A call belongs to the month in which it started. Its id contains that time, so every query is a range of ids.
 */

import { toUsd } from '../core/cost.ts';
import { minIdAt } from '../core/ids.ts';
import type { Clock } from '../core/time.ts';
import { formatTime, monthAt } from '../core/time.ts';
import { type CeilingName, type WindowKind, windowAt } from '../core/windows.ts';
import type { Database } from '../db/database.ts';
import { type ListOptions, listCalls } from './call-rows.ts';

export type UsageReports = ReturnType<typeof createUsageReports>;

const allTokens = 'tokens_input + tokens_cached_input + tokens_cache_write + tokens_cache_write_1h + tokens_output';

export function createUsageReports({ database, clock }: { database: Database; clock: Clock }) {
  return {
    /** Response of the usage route. */
    async getUsage({ projectId, monthlyCapNanos }: { readonly projectId: string; readonly monthlyCapNanos: number | null }) {
      const month = monthAt(clock.now());
      const rows = await database.query<TotalRow>(selectTotals, [projectId, minIdAt(month.start), minIdAt(month.end)]);
      const groups = (level: number, name: string) =>
        rows
          .filter((row) => row.level === level)
          .map((row) => ({ [name]: row.name, cost: toUsd(row.cost), tokens: row.tokens, calls: row.calls }));
      return {
        month: month.name,
        period: { start: formatTime(month.start), end: formatTime(month.end) },
        currency: 'USD',
        spend: toUsd(rows.find((row) => row.level === levels.all)?.cost ?? 0),
        monthly_cap: monthlyCapNanos === null ? null : toUsd(monthlyCapNanos),
        by_model: groups(levels.model, 'model'),
        by_task: groups(levels.task, 'task_id'),
        by_source: groups(levels.source, 'source'),
      };
    },
    /** Nano-dollars of the current month. */
    async getMonthSpend(projectId: string): Promise<number> {
      const month = monthAt(clock.now());
      const [row] = await database.query<{ spent: number }>(
        `select coalesce(sum(cost_nanos), 0)::bigint as spent from calls
          where project_id = $1::uuid and id >= $2::uuid and id < $3::uuid`,
        [projectId, minIdAt(month.start), minIdAt(month.end)],
      );
      return row?.spent ?? 0;
    },
    /** Usage of the ceilings of all keys that share the quota of this one, by settled calls in the window of each ceiling. */
    async getKeyUsage(
      quotaKeyId: string,
      windows: { readonly calls: WindowKind; readonly cost: WindowKind },
    ): Promise<Readonly<Record<CeilingName, number>>> {
      const now = clock.now();
      const starts = [windowAt(windows.calls, now), windowAt(windows.cost, now), windowAt('minute', now)].map(({ start }) => start);
      const [row] = await database.query<Record<CeilingName, number>>(selectKeyUse, [
        quotaKeyId,
        ...starts.map(minIdAt),
        minIdAt(Math.min(...starts)),
      ]);
      return row ?? { calls: 0, cost: 0, rpm: 0, tpm: 0 };
    },
    listCalls: (projectId: string, options?: ListOptions) => listCalls(database, projectId, options),
  };
}

interface TotalRow {
  readonly level: number;
  readonly name: string | null;
  readonly cost: number;
  readonly tokens: number;
  readonly calls: number;
}

/** Values of grouping(model, task_id, source): a bit is set for each column that is not part of the group. */
const levels = { model: 0b011, task: 0b101, source: 0b110, all: 0b111 } as const;

/** One scan for all three groupings. An unknown cost counts as 0; calls without a model or task are in the total only. */
const selectTotals = `
  with totals as (
    select grouping(model, task_id, source) as level, coalesce(model, task_id, source) as name,
           coalesce(sum(cost_nanos), 0)::bigint as cost, sum(${allTokens})::bigint as tokens, count(*) as calls
      from calls
     where project_id = $1::uuid and id >= $2::uuid and id < $3::uuid
     group by grouping sets ((), (model), (task_id), (source))
  ), ranked as (
    select level, name, cost, tokens, calls, row_number() over (partition by level order by cost desc, name) as place
      from totals
     where name is not null or level = ${levels.all}
  )
  select level, name, cost, tokens, calls from ranked where place <= 1000 order by level, place`;

/** Counts as `core/ceiling-usage.ts` does. */
const selectKeyUse = `
  select count(*) filter (where id >= $2::uuid and vendor_called and takes_slot) as calls,
         coalesce(sum(cost_nanos) filter (where id >= $3::uuid), 0)::bigint as cost,
         count(*) filter (where id >= $4::uuid and vendor_called) as rpm,
         coalesce(sum(tokens) filter (where id >= $4::uuid and vendor_called), 0)::bigint as tpm
    from (
      select id, cost_nanos, ${allTokens} as tokens, vendor_called, takes_slot
        from calls
       where key_id = any(array(select $1::uuid union all select id from virtual_keys where counted_as = $1::uuid)) and id >= $5::uuid
    ) as used`;
