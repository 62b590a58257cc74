/** Fills `calls` and `attempts`: a table per month, attached as a partition when it is full, so that its indexes are built once. */
import { minIdAt } from '../../src/core/ids.ts';
import { monthAt } from '../../src/core/time.ts';
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

/** @param {Shape} shape @param {readonly string[]} keyIds of all projects, `keysPerProject` of each @param {RunAll} runAll */
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

/** Fills the rollups, in larger slices than a server that has calls to store. @param {import('pg').Pool} pool */
export async function fillRollups(pool) {
  await pool.query(`update usage_rollup_fill set filled_from = 'ffffffff-ffff-ffff-ffff-ffffffffffff'`);
  for (let filled = 1; filled > 0; ) {
    const { rows } = await pool.query('select fill_usage_rollups(500000) as filled');
    filled = rows[0].filled;
    await pool.query('select merge_usage_increments(array(select ctid from usage_increments))');
    await pool.query('vacuum usage_increments');
  }
}

/** Builds the indexes of each month, by attaching it. @param {Shape} shape @param {RunAll} runAll */
export async function attachMonths(shape, runAll) {
  for (const { suffix, start, end } of monthsOf(shape)) {
    for (const table of ['calls', 'attempts']) {
      await runAll([
        `alter table ${table} attach partition ${table}_${suffix} for values from ('${minIdAt(start)}') to ('${minIdAt(end)}')`,
      ]);
    }
  }
}

/** Months with the numbers of their calls. @param {Shape} shape */
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

/** One for each call that reached a vendor, and a failed one before it for 2 %. @param {string} table @param {string} calls */
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
