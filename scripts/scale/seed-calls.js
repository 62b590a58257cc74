/**
 * Fills `calls` and `attempts`. Each month is a table of its own at first, and becomes a partition when it's full. That
 * way, we only build its indexes once.
 */
import { minIdAt } from '../../src/core/ids.ts';
import { monthAt } from '../../src/core/time.ts';
import { insertDays, insertHours } from '../../src/usage/hourly-aggregates/build.ts';
import {
  callId,
  callMs,
  callScopeHash,
  keysPerProject,
  models,
  pick,
  pickSkewed,
  projectNumber,
  sha256,
  source,
  subject,
  timeOf,
  uuidArray,
} from './shape.js';

/** @typedef {import('./shape.js').Shape} Shape */
/** @typedef {(statements: readonly string[]) => Promise<void>} RunAll runs statements on all connections */

const sliceRows = 250_000;

/**
 * @param {Shape} shape
 * @param {readonly string[]} keyIds the keys of all projects, `keysPerProject` for each
 * @param {RunAll} runAll
 */
export async function seedCalls(shape, keyIds, runAll) {
  const months = monthsOf(shape);
  for (const { suffix, from, to } of months) {
    await runAll([
      `create table calls_${suffix} (like calls including defaults)`,
      `create table attempts_${suffix} (like attempts including defaults)`,
    ]);
    const slices = [];
    for (let at = from; at < to; at += sliceRows) slices.push({ from: at, to: Math.min(to, at + sliceRows) });
    await runAll(slices.map((slice) => insertCalls(shape, keyIds, `calls_${suffix}`, slice)));
    await runAll([insertAttempts(`attempts_${suffix}`, `calls_${suffix}`)]);
  }
}

/**
 * Fills the rollups and hourly aggregates from the calls, with one statement per day. The service does this call by
 * call, with the triggers in migration 0033 and `fill_usage_rollups`, but for so many calls it would take far too long.
 * `test/scripts/seed-scale.test.ts` checks that we get the same results.
 * @param {import('pg').Pool} pool
 * @param {number} workers
 */
export async function fillRollups(pool, workers) {
  const { rows } = await pool.query(`select distinct date_trunc('day', started_at, 'UTC') as day from calls order by day`);
  const days = rows.map(({ day }) => day.getTime());
  const months = [...new Set(days.map((day) => monthAt(day).start))];
  const work = async () => {
    const client = await pool.connect();
    try {
      await client.query('set enable_nestloop = off');
      for (let day = days.shift(); day !== undefined; day = days.shift()) {
        const ids = [minIdAt(day), minIdAt(day + dayMs)];
        await client.query(`with quarters as (${insertRollups(quarters)} returning *) ${sumRollups('quarters', 'day')}`, ids);
        await client.query(insertRollups(taskDays), ids);
        for (const hours of insertHours('$1::boolean and'))
          await client.query(`with hours as (${hours} returning *) ${insertDays('hours')}`, [true, ...ids]);
      }
    } finally {
      client.release();
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  for (const month of months)
    await pool.query(sumRollups(`usage_rollups where span = 'day' and start >= to_timestamp($1) and start < to_timestamp($2)`, 'month'), [
      month / 1_000,
      monthAt(month).end / 1_000,
    ]);
  await pool.query(`update usage_rollup_fill set filled_from = '00000000-0000-0000-0000-000000000000'`);
  await pool.query(`update usage_cells_fill set filled_from = '-infinity'`);
  await pool.query('truncate usage_increments, usage_outdated');
}

const dayMs = 86_400_000;
const sums = [
  ...['calls', 'vendor_calls', 'vendor_tokens', 'slots', 'errors', 'unpriced', 'cost_nanos', 'tokens_input', 'tokens_cached_input'],
  ...['tokens_cache_write', 'tokens_output', 'cache_hits', 'cache_lookups', 'failovers'],
];
const columns = `project_id, scope, span, start, name, key_prefix, ${sums.join(', ')}, durations, first_chunks`;

const quarters = {
  span: 'quarter',
  start: `date_bin('15 minutes', started_at, '2000-01-01T00:00:00Z')`,
  sets: [[], ['key_id', 'key_prefix'], ['source'], ['model']],
  scope: `case when grouping(key_id) = 0 then 'key' when grouping(source) = 0 then 'source' when grouping(model) = 0 then 'model' else 'project' end`,
  name: 'case when grouping(key_id) = 0 then key_id::text when grouping(source) = 0 then source when grouping(model) = 0 then model end',
  prefix: 'case when grouping(key_id) = 0 then key_prefix end',
};
const taskDays = {
  ...{
    span: 'day',
    start: `date_trunc('day', started_at, 'UTC')`,
    sets: [['task_id']],
    scope: `'task'`,
    name: 'task_id',
    prefix: 'null::text',
  },
};

/**
 * Inserts the rollups of the calls with ids between $1 and $2. They have to be what the triggers in migration 0033
 * would have written.
 * @param {typeof quarters} spans
 */
function insertRollups({ span, start, sets, scope, name, prefix }) {
  const histogram = (/** @type {string} */ column, /** @type {string} */ condition) => {
    const elements = `array_agg(usage_slot(${column}) + 1024) filter (where outcome = 'ok' ${condition})`;
    return scope === `'task'`
      ? 'null::bigint[]'
      : `case when cardinality(${elements}) > 64 then usage_add_histograms(${elements}, null) else ${elements} end`;
  };
  const tokens = 'tokens_input + tokens_cached_input + tokens_cache_write + tokens_cache_write_1h + tokens_output';
  return `
    insert into usage_rollups (${columns})
    select project_id, ${scope}, '${span}', start, ${name}, ${prefix},
           count(*), count(*) filter (where vendor_called), coalesce(sum(${tokens}) filter (where vendor_called), 0),
           count(*) filter (where vendor_called and takes_slot), count(*) filter (where outcome not in ('ok', 'client_left')),
           count(*) filter (where cost_nanos is null), coalesce(sum(cost_nanos), 0), sum(tokens_input), sum(tokens_cached_input),
           sum(tokens_cache_write + tokens_cache_write_1h), sum(tokens_output), count(*) filter (where cache = 'hit'), count(cache),
           count(second.n), ${histogram('duration_ms', '')}, ${histogram('first_byte_ms', 'and stream and first_byte_ms is not null')}
      from (select calls.*, ${start} as start from calls where id >= $1::uuid and id < $2::uuid) as c
      left join (select call_id, n from attempts where n = 2 and call_id >= $1::uuid and call_id < $2::uuid) as second on second.call_id = c.id
     group by grouping sets (${sets.map((set) => `(${['project_id', 'start', ...set].join(', ')})`).join(', ')})`;
}

/** Sums up rollups for a longer period. @param {string} from @param {'day' | 'month'} span */
function sumRollups(from, span) {
  const merged = (/** @type {string} */ column) => `usage_add_histograms(usage_concat(${column}), null)`;
  return `
    insert into usage_rollups (${columns})
    select project_id, scope, '${span}', date_trunc('${span}', start, 'UTC'), name, key_prefix, ${sums.map((sum) => `sum(${sum})`).join(', ')},
           ${merged('durations')}, ${merged('first_chunks')}
      from ${from}
     group by project_id, scope, 4, name, key_prefix`;
}

/**
 * Attaches each month's table as a partition. This builds the indexes.
 * @param {Shape} shape
 * @param {RunAll} runAll
 */
export async function attachMonths(shape, runAll) {
  for (const { suffix, start, end } of monthsOf(shape)) {
    for (const table of ['calls', 'attempts']) {
      await runAll([
        `alter table ${table} attach partition ${table}_${suffix} for values from ('${minIdAt(start)}') to ('${minIdAt(end)}')`,
      ]);
    }
  }
}

/**
 * Returns the months that the shape covers, with the range of call numbers in each of them.
 * @param {Shape} shape
 */
function monthsOf({ startMs, endMs, calls }) {
  const numberAt = (/** @type {number} */ ms) => Math.min(calls, Math.ceil(((ms - startMs) * calls) / (endMs - startMs)));
  const months = [];
  for (let month = monthAt(startMs); month.start < endMs; month = monthAt(month.end)) {
    const suffix = month.name.replace('-', '_');
    months.push({ suffix, start: month.start, end: month.end, from: numberAt(month.start), to: numberAt(month.end) });
  }
  return months;
}

/** @param {Shape} shape @param {readonly string[]} keyIds @param {string} table @param {{ from: number, to: number }} slice */
function insertCalls(shape, keyIds, table, { from, to }) {
  const column = (/** @type {(model: typeof models[number]) => string | number} */ of) => models.map(of).join(',');
  return `
    insert into ${table} (id, project_id, key_id, key_prefix, source, route, model_asked, model, stream, status, code, outcome, cache,
      tokens_input, tokens_cached_input, tokens_cache_write, tokens_cache_write_1h, tokens_output, cost_nanos, estimated, duration_ms,
      first_byte_ms, task_id, turn_id, agent_id, subject_sha256, plan, started_at, vendor_called, unmetered, takes_slot, in_rollups)
    select ${callId(shape, 'n')}, (${uuidArray(shape.projects)})[project], (${uuidArray(keyIds)})[key], 'scal' || lpad(key::text, 4, '0'),
      ${source('scope')}, case when h & 3 = 0 then 'messages' else 'chat' end, model, case when outcome = 'refused' then null else model end,
      (h >> 2) & 1 = 0, case outcome when 'ok' then 200 when 'failed' then 502 else 429 end,
      case outcome when 'failed' then 'upstream_failed' when 'refused' then 'rate_limited' end, outcome, cache,
      input, 0, 0, 0, output, input * input_price + output * output_price, false, 300 + output * 12, 200 + (h & 511)::integer,
      case when (h >> 3) & 3 > 0 then case when (h >> 5) & 4095 = 0 then 'rare-task-' || ${pick('h', 20, 50)} else 'task-' || ${pickSkewed('h', 20, 5_000)} end end,
      case when (h >> 3) & 3 > 0 then 'turn-' || n % 100000 end, case when (h >> 3) & 3 = 3 then 'agent-' || ${pick('h', 24, 40)} end,
      case when ${subject('scope')} is not null then ${sha256(subject('scope'))} end,
      jsonb_build_array(jsonb_build_object('model', model, 'skipped', null)), ${timeOf(callMs(shape, 'n'))},
      outcome <> 'refused' and cache is distinct from 'hit', false, true, false
      from generate_series(${from}::bigint, ${to - 1}::bigint) as numbered (n)
     cross join lateral (select ${callScopeHash('n')} as scope, hashint8extended(n, 2) as h offset 0) as hashed
     cross join lateral (
       select ${projectNumber('scope')} as project,
              case when (h >> 8) & 63 = 0 then 'failed' when (h >> 8) & 63 = 1 then 'refused' else 'ok' end as outcome,
              case when (h >> 14) & 31 = 0 then 'hit' when (h >> 14) & 7 = 1 then 'miss' end as cache_result,
              ${pickSkewed('h', 20, models.length)} + 1 as model_number offset 0) as chosen
     cross join lateral (
       select (project - 1) * ${keysPerProject} + ${pickSkewed('scope', 20, keysPerProject)} + 1 as key,
              (array['${column(({ name }) => name).replaceAll(',', "','")}'])[model_number] as model,
              (array[${column(({ input }) => input)}]::bigint[])[model_number] as input_price,
              (array[${column(({ output }) => output)}]::bigint[])[model_number] as output_price,
              case when outcome = 'ok' then cache_result end as cache,
              case when outcome = 'ok' and cache_result is distinct from 'hit' then 200 + ((h >> 24) & 4095) else 0 end as input,
              case when outcome = 'ok' and cache_result is distinct from 'hit' then 20 + ((h >> 36) & 1023)::integer else 0 end as output offset 0) as amounts`;
}

/**
 * Inserts an attempt for each call that has reached a vendor. For 2 % of these calls, also inserts a failed attempt
 * before it.
 * @param {string} table
 * @param {string} calls
 */
function insertAttempts(table, calls) {
  const columns = `call_id, n, provider, model, status, outcome, wait_ms, started_at, first_byte_ms, duration_ms, tokens_input,
      tokens_cached_input, tokens_cache_write, tokens_cache_write_1h, tokens_output, cost_nanos`;
  const hasFailover = `get_byte(uuid_send(id), 15) < 5`;
  return `
    insert into ${table} (${columns})
    select id, case when ${hasFailover} then 2 else 1 end, 'scale', model, status, outcome, 0, started_at, first_byte_ms, duration_ms,
           tokens_input, 0, 0, 0, tokens_output, cost_nanos
      from ${calls} where vendor_called
    union all
    select id, 1, 'scale', model, 503, 'failed', 0, started_at, 100, 120, 0, 0, 0, 0, 0, 0 from ${calls} where vendor_called and ${hasFailover}`;
}
