/** Stores settled calls: a row per call and per attempt. Idempotent by call id. */
import type { Attempt, SettledCall } from '../core/call.ts';
import { reachedVendor } from '../core/ceiling-usage.ts';
import { hashSubject } from '../core/subject.ts';
import type { Queries } from '../db/database.ts';

/** Returns the ids of the calls that were not stored before. */
export async function storeCalls(tx: Queries, calls: readonly SettledCall[]): Promise<ReadonlySet<string>> {
  if (calls.length === 0) return new Set();
  const rows = await tx.query<{ id: string }>(insertCalls, toColumns(calls, toCallValues));
  const stored = new Set(rows.map(({ id }) => id));
  const attempts = calls
    .filter(({ facts }) => stored.has(facts.id))
    .flatMap(({ facts, result }) => result.attempts.map((attempt) => ({ callId: facts.id, attempt })));
  if (attempts.length > 0) await tx.query(insertAttempts, toColumns(attempts, toAttemptValues));
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

function toCallValues({ facts, result }: SettledCall): readonly unknown[] {
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
    toInteger(result.tokens.input),
    toInteger(result.tokens.cachedInput),
    toInteger(result.tokens.cacheWrite),
    toInteger(result.tokens.cacheWrite1h),
    toInteger(result.tokens.output),
    toIntegerOrNull(result.costNanos),
    result.estimated,
    toMilliseconds(result.durationMs),
    toMillisecondsOrNull(result.firstByteMs),
    correlation.taskId,
    correlation.turnId,
    correlation.agentId,
    correlation.triggerKind,
    correlation.triggerDetail,
    toIntegerOrNull(correlation.iteration),
    toIntegerOrNull(correlation.distilSaved),
    facts.memory.subject === null ? null : hashSubject(facts.memory.subject),
    JSON.stringify(facts.plan),
    new Date(facts.startedAt),
    reachedVendor(result),
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

function toAttemptValues({ callId, attempt }: { callId: string; attempt: Attempt }): readonly unknown[] {
  return [
    callId,
    attempt.n,
    attempt.provider,
    attempt.model,
    attempt.status,
    attempt.outcome,
    toMilliseconds(attempt.waitMs),
    new Date(attempt.startedAt),
    toMillisecondsOrNull(attempt.firstByteMs),
    toMilliseconds(attempt.durationMs),
    toInteger(attempt.tokens.input),
    toInteger(attempt.tokens.cachedInput),
    toInteger(attempt.tokens.cacheWrite),
    toInteger(attempt.tokens.cacheWrite1h),
    toInteger(attempt.tokens.output),
    toIntegerOrNull(attempt.costNanos),
  ];
}

/** One array per column, for `unnest`. */
function toColumns<Item>(items: readonly Item[], rowOf: (item: Item) => readonly unknown[]): unknown[][] {
  const rows = items.map(rowOf);
  return (rows[0] ?? []).map((_value, column) => rows.map((row) => row[column]));
}

/** The nearest safe integer, for values that a bigint column rejects (a fraction, an absurd size). */
function toInteger(value: number): number {
  if (Number.isNaN(value)) return 0;
  return Math.round(Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, value)));
}

function toIntegerOrNull(value: number | null): number | null {
  return value === null ? null : toInteger(value);
}

const maxInteger = 2_147_483_647;

/** A duration for an integer column: not negative (a clock may be set back), at most 24 days. */
function toMilliseconds(value: number): number {
  return Math.min(maxInteger, Math.max(0, toInteger(value)));
}

function toMillisecondsOrNull(value: number | null): number | null {
  return value === null ? null : toMilliseconds(value);
}
