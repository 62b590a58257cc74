/** What the journal's drain writes of settled calls: a row per call and per attempt. Idempotent by call id. */
import { createHash } from 'node:crypto';
import type { Attempt, SettledCall } from '../core/call.ts';
import { isVendorAsked } from '../core/ceiling-usage.ts';
import type { Queries } from '../db/database.ts';

/** Stores the calls in the transaction `tx`, and attempts for those that are new; returns the ids of these. */
export async function storeCalls(tx: Queries, calls: readonly SettledCall[]): Promise<ReadonlySet<string>> {
  if (calls.length === 0) return new Set();
  const rows = await tx.query<{ id: string }>(insertCalls, columnsOf(calls, callRow));
  const stored = new Set(rows.map(({ id }) => id));
  const attempts = calls
    .filter(({ facts }) => stored.has(facts.id))
    .flatMap(({ facts, result }) => result.attempts.map((attempt) => ({ callId: facts.id, attempt })));
  if (attempts.length > 0) await tx.query(insertAttempts, columnsOf(attempts, attemptRow));
  return stored;
}

const insertCalls = `
  insert into calls (
    id, project_id, key_id, key_prefix, source, route, model_asked, model, stream, status, code, outcome, cache,
    tokens_input, tokens_cached_input, tokens_cache_write, tokens_cache_write_1h, tokens_output, cost_nanos, estimated,
    duration_ms, first_byte_ms, task_id, turn_id, agent_id, trigger_kind, trigger_detail, iteration, distil_saved,
    subject_sha256, plan, started_at, vendor_called, unmetered, units
  )
  select * from unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[], $10::integer[],
    $11::text[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[],
    $20::boolean[], $21::integer[], $22::integer[], $23::text[], $24::text[], $25::text[], $26::text[], $27::text[], $28::bigint[],
    $29::bigint[], $30::bytea[], $31::jsonb[], $32::timestamptz[],
    $33::boolean[], $34::boolean[], $35::jsonb[]
  )
  on conflict (id) do nothing
  returning id`;

function callRow({ facts, result }: SettledCall): readonly unknown[] {
  const { correlation } = facts;
  return [
    facts.id,
    facts.projectId,
    facts.keyId,
    facts.keyPrefix,
    facts.source,
    facts.route,
    facts.modelAsked,
    result.model,
    facts.stream,
    result.status,
    result.code,
    result.outcome,
    result.cache,
    wholeNumber(result.tokens.input),
    wholeNumber(result.tokens.cachedInput),
    wholeNumber(result.tokens.cacheWrite),
    wholeNumber(result.tokens.cacheWrite1h),
    wholeNumber(result.tokens.output),
    wholeOrNull(result.costNanos),
    result.estimated,
    milliseconds(result.durationMs),
    millisecondsOrNull(result.firstByteMs),
    correlation.taskId,
    correlation.turnId,
    correlation.agentId,
    correlation.triggerKind,
    correlation.triggerDetail,
    wholeOrNull(correlation.iteration),
    wholeOrNull(correlation.distilSaved),
    facts.memory.subject === null ? null : createHash('sha256').update(facts.memory.subject, 'utf8').digest(),
    JSON.stringify(facts.plan),
    new Date(facts.startedAt),
    isVendorAsked(result),
    facts.unmetered === true,
    result.units === undefined ? null : JSON.stringify(result.units),
  ];
}

const insertAttempts = `
  insert into attempts (
    call_id, n, provider, model, status, outcome, wait_ms, started_at, first_byte_ms, duration_ms,
    tokens_input, tokens_cached_input, tokens_cache_write, tokens_cache_write_1h, tokens_output, cost_nanos
  )
  select * from unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::integer[], $8::timestamptz[], $9::integer[],
    $10::integer[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[]
  )
  on conflict (call_id, n) do nothing`;

function attemptRow({ callId, attempt }: { callId: string; attempt: Attempt }): readonly unknown[] {
  return [
    callId,
    attempt.n,
    attempt.provider,
    attempt.model,
    attempt.status,
    attempt.outcome,
    milliseconds(attempt.waitMs),
    new Date(attempt.startedAt),
    millisecondsOrNull(attempt.firstByteMs),
    milliseconds(attempt.durationMs),
    wholeNumber(attempt.tokens.input),
    wholeNumber(attempt.tokens.cachedInput),
    wholeNumber(attempt.tokens.cacheWrite),
    wholeNumber(attempt.tokens.cacheWrite1h),
    wholeNumber(attempt.tokens.output),
    wholeOrNull(attempt.costNanos),
  ];
}

/** One array per column, as `unnest` takes them. */
function columnsOf<Item>(items: readonly Item[], rowOf: (item: Item) => readonly unknown[]): unknown[][] {
  const rows = items.map(rowOf);
  return (rows[0] ?? []).map((_value, column) => rows.map((row) => row[column]));
}

/** A count as SQL can hold it; the nearest one for what no bigint column takes (a fraction, an absurd size). */
function wholeNumber(value: number): number {
  if (Number.isNaN(value)) return 0;
  return Math.round(Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, value)));
}

function wholeOrNull(value: number | null): number | null {
  return value === null ? null : wholeNumber(value);
}

const largestInteger = 2_147_483_647;

/** A duration in an integer column: never negative (clocks are set back), at most 24 days. */
function milliseconds(value: number): number {
  return Math.min(largestInteger, Math.max(0, wholeNumber(value)));
}

function millisecondsOrNull(value: number | null): number | null {
  return value === null ? null : milliseconds(value);
}
