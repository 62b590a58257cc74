/** Builds SQL that sums up calls, either from stored sums (rollups and hourly aggregates) or from call rows. */
import { failoversSql, isErrorSql } from './analytics/call-filter.ts';

/**
 * Returns an SQL expression for each measure of call rows (`c`) or attempts (`a`). Histograms don't count calls without
 * a duration or first chunk, so their expressions are null for these calls.
 */
function measuresOf(row: 'a' | 'c') {
  return {
    calls: '1',
    vendor_calls: row === 'c' ? 'c.vendor_called::integer' : '1',
    slots: row === 'c' ? '(c.vendor_called and c.takes_slot)::integer' : '1',
    errors: `(${isErrorSql(row)})::integer`,
    unpriced: `(${row}.cost_nanos is null)::integer`,
    cost_nanos: `coalesce(${row}.cost_nanos, 0)`,
    tokens_input: `${row}.tokens_input`,
    tokens_cached_input: `${row}.tokens_cached_input`,
    tokens_cache_write: `${row}.tokens_cache_write + ${row}.tokens_cache_write_1h`,
    tokens_output: `${row}.tokens_output`,
    cache_hits: row === 'c' ? `coalesce(c.cache = 'hit', false)::integer` : '0',
    cache_lookups: row === 'c' ? '(c.cache is not null)::integer' : '0',
    failovers: row === 'c' ? failoversSql : '(a.n > 1)::integer',
    durations: `case when ${row}.outcome = 'ok' then ${row}.duration_ms end`,
    first_chunks: `case when ${row}.outcome = 'ok' and c.stream then ${row}.first_byte_ms end`,
  } as const;
}

export const callMeasures = measuresOf('c');
export const attemptMeasures: Readonly<Record<keyof typeof callMeasures, string>> = measuresOf('a');

export type Histogram = 'durations' | 'first_chunks';
export type Measure = Exclude<keyof typeof callMeasures, Histogram>;

export interface Addends {
  /**
   * The kind of rows in `from`: stored sums, calls (`c`), or attempts (`a`). Attempts are joined to their calls (`c`).
   */
  readonly row: 'stored' | 'c' | 'a';
  /** An SQL expression for the name of a row's group. */
  readonly name: string;
  readonly from: string;
  readonly where: string;
  readonly isSubtracted?: true;
  /**
   * The SQL for the measure `failovers`. Only set if `from` already joins the second attempts. Otherwise we look up the
   * second attempt of each call.
   */
  readonly failovers?: string;
}

/**
 * Returns a subquery with the requested measures, and with the columns `name` (the name of the row's group) and `at` (a
 * time in the row's period).
 */
export function selectSums(addends: readonly Addends[], wanted: readonly (Measure | Histogram)[]): string {
  return addends
    .map(({ row, name, from, where, failovers, isSubtracted }) => {
      const sign = isSubtracted ? '-' : '';
      const sql = row === 'stored' ? null : { ...rowMeasures[row], ...(failovers !== undefined && { failovers }) };
      const values = wanted.map((measure) => `${sign}(${sql ? sql[measure] : `stored.${measure}`}) as ${measure}`);
      return `select ${timeOf[row]} as at, ${[`${name} as name`, ...values].join(', ')} from ${from} where ${where}`;
    })
    .join(' union all ');
}

/**
 * Returns a subquery for a histogram. Its columns are `at`, `name`, `slot` and `n`, which is the number of calls in the
 * slot (see `valueOfSlot`).
 */
export function selectHistogram(addends: readonly Addends[], histogram: Histogram): string {
  return addends
    .map(({ row, name, from, where, isSubtracted }) =>
      row === 'stored'
        ? `select stored.start as at, ${name} as name, element & 1023 as slot, ${isSubtracted ? '-' : ''}(element >> 10) as n
             from ${from} cross join lateral unnest(stored.${histogram}) as element where ${where}`
        : `select c.started_at, ${name}, usage_slot(${rowMeasures[row][histogram]}), ${isSubtracted ? -1 : 1}
             from ${from} where ${where} and ${rowMeasures[row][histogram]} is not null`,
    )
    .join(' union all ');
}

const rowMeasures = { c: callMeasures, a: attemptMeasures } as const;
const timeOf = { stored: 'stored.start', c: 'c.started_at', a: 'c.started_at' } as const;

/**
 * Returns the duration in milliseconds that a slot of a histogram stands for. It's off by at most 5 %. This is the
 * inverse of `usage_slot` in the database.
 */
export function valueOfSlot(slot: number): number {
  return Math.round(Math.exp(slot / 10) - 1);
}
