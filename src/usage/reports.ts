/**
 * Reports on recorded calls, e.g. how much a project has spent or a key has used. We take these figures from the
 * rollups and never from metrics. The routes wait until the journal is drained, so that clients see even their latest
 * calls. A call belongs to the month in which it started.
 */

import { toUsd } from '../core/cost.ts';
import { minIdAt } from '../core/ids.ts';
import { type Clock, formatTime, monthAt } from '../core/time.ts';
import { type CeilingName, type WindowKind, windowAt } from '../core/windows.ts';
import type { Database } from '../db/database.ts';
import { createParameters } from './analytics/call-filter.ts';
import type { Period } from './analytics/range.ts';
import { type ListOptions, listCalls } from './call-rows.ts';
import { type Scope, selectRollupSums } from './rollups/rollup-sums.ts';
import { createSharedReads } from './shared-reads.ts';

export type UsageReports = ReturnType<typeof createUsageReports>;

interface UsageRow {
  readonly name: string | null;
  /** In nano-dollars. Calls with an unknown cost count as 0. */
  readonly cost: number;
  readonly tokens: number;
  readonly calls: number;
}

export function createUsageReports({ database, clock }: { database: Database; clock: Clock }) {
  /**
   * Clients poll these reports, but we have only a few database connections for them. So callers who ask for the same
   * report at the same time share the result.
   */
  const shared = createSharedReads();
  /** Sums up calls by an attribute and returns the most expensive groups. Calls without this attribute are left out. */
  const sumBy = (projectId: string, scope: Scope, period: Period): Promise<UsageRow[]> => {
    const parameters = createParameters();
    const parts = selectRollupSums({ projectId, scope, periods: [period] }, usageMeasures, parameters);
    return database.query<UsageRow>(
      `select name, ${usageSums} from (${parts}) as part where ${scope === 'project' ? 'true' : 'name is not null'} ${largestFirst}`,
      parameters.values,
    );
  };
  /**
   * Sums up the calls of a month by task. There can be any number of tasks, so this only reads candidates for the most
   * expensive ones.
   */
  const sumByTask = (projectId: string, { from, to }: Period): Promise<UsageRow[]> =>
    database.query<UsageRow>(selectTasks, [projectId, new Date(from), new Date(to), minIdAt(from), minIdAt(to)]);

  return {
    async getUsage({ projectId, monthlyCapNanos }: { readonly projectId: string; readonly monthlyCapNanos: number | null }) {
      const { name: month, start, end } = monthAt(clock.now());
      const period = { from: start, to: end };
      const [[total], models, tasks, sources] = await shared.run(`usage ${projectId} ${month}`, () =>
        Promise.all([
          sumBy(projectId, 'project', period),
          sumBy(projectId, 'model', period),
          sumByTask(projectId, period),
          sumBy(projectId, 'source', period),
        ]),
      );
      const toGroup = (row: UsageRow) => ({ cost: toUsd(row.cost), tokens: row.tokens, calls: row.calls });
      return {
        month,
        period: { start: formatTime(start), end: formatTime(end) },
        currency: 'USD',
        spend: toUsd(total?.cost ?? 0),
        monthly_cap: monthlyCapNanos === null ? null : toUsd(monthlyCapNanos),
        by_model: models.map((row) => ({ model: row.name, ...toGroup(row) })),
        by_task: tasks.map((row) => ({ task_id: row.name, ...toGroup(row) })),
        by_source: sources.map((row) => ({ source: row.name, ...toGroup(row) })),
      };
    },
    /** Returns the project's spend of the current month in nano-dollars. */
    async getMonthSpend(projectId: string): Promise<number> {
      const { start, end } = monthAt(clock.now());
      const [total] = await shared.run(`spend ${projectId} ${start}`, () => sumBy(projectId, 'project', { from: start, to: end }));
      return total?.cost ?? 0;
    },
    /**
     * Returns the usage of all keys that share a quota, by ceiling. Only includes settled calls in the current window.
     */
    async getKeyUsage(
      { projectId, quotaKeyId }: { readonly projectId: string; readonly quotaKeyId: string },
      windows: { readonly calls: WindowKind; readonly cost: WindowKind },
    ): Promise<Readonly<Record<CeilingName, number>>> {
      const now = clock.now();
      const parameters = createParameters();
      const key = parameters.add(quotaKeyId);
      const keys = `any(array(select ${key}::text union all select id::text from virtual_keys where counted_as = ${key}::uuid))`;
      const sumOf = (measure: 'slots' | 'cost_nanos', window: WindowKind): string => {
        const { start } = windowAt(window, now);
        const periods = [{ from: start, to: windowAt('month', now).end ?? now }];
        const parts = selectRollupSums(
          { projectId, scope: 'key', periods, condition: (name) => `${name} = ${keys}` },
          [measure],
          parameters,
        );
        return `(select coalesce(sum(${measure}), 0)::bigint from (${parts}) as part)`;
      };
      const { start: minuteStart } = windowAt('minute', now);
      const minute = `from usage_increments where project_id = ${parameters.add(projectId)}::uuid and scope = 'key'
        and start = ${parameters.add(new Date(minuteStart))}::timestamptz and name = ${keys}`;
      const text = `select ${sumOf('slots', windows.calls)} as calls, ${sumOf('cost_nanos', windows.cost)} as cost,
                (select coalesce(sum(vendor_calls), 0)::bigint ${minute}) as rpm,
                (select coalesce(sum(vendor_tokens), 0)::bigint ${minute}) as tpm`;
      const [row] = await shared.run(`key ${quotaKeyId} ${windows.calls} ${windows.cost} ${minuteStart}`, () =>
        database.query<Record<CeilingName, number>>(text, parameters.values),
      );
      return row ?? { calls: 0, cost: 0, rpm: 0, tpm: 0 };
    },
    listCalls: (projectId: string | null, options?: ListOptions) => listCalls(database, projectId, options),
  };
}

const maxGroups = 1_000;

const usageMeasures = ['calls', 'cost_nanos', 'tokens_input', 'tokens_cached_input', 'tokens_cache_write', 'tokens_output'] as const;
const allTokens = 'tokens_input + tokens_cached_input + tokens_cache_write + tokens_output';
const usageSums = `sum(cost_nanos)::bigint as cost, sum(${allTokens})::bigint as tokens, sum(calls)::bigint as calls`;
const largestFirst = `group by name having sum(calls) <> 0 order by cost desc, name limit ${maxGroups}`;

/** Selects the calls of the month that aren't in a rollup yet. */
const unfilledTasks = `from calls
     where project_id = $1::uuid and id >= $4::uuid and id < least($5::uuid, (select filled_from from usage_rollup_fill)) and not in_rollups`;

const usageColumns = usageMeasures.join(', ');
const tasksOfMonth = `from usage_rollups where project_id = $1::uuid and scope = 'task' and span = 'month' and start = $2::timestamptz`;
const newTasks = `from usage_increments
     where project_id = $1::uuid and scope = 'task' and start >= $2::timestamptz and start < $3::timestamptz and name is not null`;

/**
 * Selects the most expensive tasks of the month. A task that has changed since the last merge may have become cheaper
 * and dropped out of the top. So we read all tasks that have changed, and enough of the most expensive merged ones to
 * take their place.
 */
const selectTasks = `
  with changed as materialized (
    select name ${newTasks}
    union
    select task_id ${unfilledTasks} and task_id is not null
  ), largest as (
    select name, ${usageColumns} ${tasksOfMonth} and name is not null order by cost_nanos desc
     limit ${maxGroups} + (select count(*) from changed)
  )
  select name, ${usageSums}
    from (
      select name, ${usageColumns} from largest
      union all
      select name, ${usageColumns} ${tasksOfMonth} and name = any(array(select name from changed except select name from largest))
      union all
      select name, ${usageColumns} ${newTasks}
      union all
      select task_id, 1, coalesce(cost_nanos, 0), tokens_input, tokens_cached_input, tokens_cache_write + tokens_cache_write_1h, tokens_output
        ${unfilledTasks} and task_id is not null
    ) as part
   ${largestFirst}`;
