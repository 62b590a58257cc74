/** Stores settled calls: a row per call and per attempt. Idempotent by call id. */
import type { Attempt, SettledCall } from '../core/call.ts';
import { reachedVendor } from '../core/ceiling-usage.ts';
import { hashSubjectHex } from '../core/subject.ts';
import { type ArrayValue, toArrayLiteral } from '../db/array-literal.ts';
import type { Queries } from '../db/database.ts';

/** Returns the ids of the calls that were not stored before. */
export async function storeCalls(tx: Queries, calls: readonly SettledCall[]): Promise<ReadonlySet<string>> {
  if (calls.length === 0) return new Set();
  const rows = await tx.query<{ id: string }>(insertCalls, toArrays(callColumns, calls));
  const stored = new Set(rows.map(({ id }) => id));
  const attempts = calls
    .filter(({ metadata }) => stored.has(metadata.id))
    .flatMap(({ metadata, result }) => result.attempts.map((attempt) => ({ callId: metadata.id, attempt })));
  if (attempts.length > 0) await tx.query(insertAttempts, toArrays(attemptColumns, attempts));
  return stored;
}

type Column<Item> = readonly [name: string, sqlType: string, toValue: (item: Item) => ArrayValue];

const callColumns: readonly Column<SettledCall>[] = [
  ['id', 'uuid', ({ metadata }) => metadata.id],
  ['project_id', 'uuid', ({ metadata }) => metadata.projectId],
  ['key_id', 'uuid', ({ metadata }) => metadata.keyId],
  ['key_prefix', 'text', ({ metadata }) => metadata.keyPrefix],
  ['source', 'text', ({ metadata }) => metadata.source],
  ['route', 'text', ({ metadata }) => metadata.route],
  ['model_asked', 'text', ({ metadata }) => metadata.modelAsked],
  ['model', 'text', ({ result }) => result.model],
  ['stream', 'boolean', ({ metadata }) => metadata.stream],
  ['status', 'integer', ({ result }) => result.status],
  ['code', 'text', ({ result }) => result.code],
  ['outcome', 'text', ({ result }) => result.outcome],
  ['cache', 'text', ({ result }) => result.cache],
  ['tokens_input', 'bigint', ({ result }) => toInteger(result.tokens.input)],
  ['tokens_cached_input', 'bigint', ({ result }) => toInteger(result.tokens.cachedInput)],
  ['tokens_cache_write', 'bigint', ({ result }) => toInteger(result.tokens.cacheWrite)],
  ['tokens_cache_write_1h', 'bigint', ({ result }) => toInteger(result.tokens.cacheWrite1h)],
  ['tokens_output', 'bigint', ({ result }) => toInteger(result.tokens.output)],
  ['cost_nanos', 'bigint', ({ result }) => toIntegerOrNull(result.costNanos)],
  ['estimated', 'boolean', ({ result }) => result.estimated],
  ['duration_ms', 'integer', ({ result }) => toMilliseconds(result.durationMs)],
  ['first_byte_ms', 'integer', ({ result }) => toMillisecondsOrNull(result.firstByteMs)],
  ['task_id', 'text', ({ metadata }) => metadata.correlation.taskId],
  ['turn_id', 'text', ({ metadata }) => metadata.correlation.turnId],
  ['agent_id', 'text', ({ metadata }) => metadata.correlation.agentId],
  ['trigger_kind', 'text', ({ metadata }) => metadata.correlation.triggerKind],
  ['trigger_detail', 'text', ({ metadata }) => metadata.correlation.triggerDetail],
  ['iteration', 'bigint', ({ metadata }) => toIntegerOrNull(metadata.correlation.iteration)],
  ['distil_saved', 'bigint', ({ metadata }) => toIntegerOrNull(metadata.correlation.distilSaved)],
  ['subject_sha256', 'bytea', ({ metadata: { memory } }) => (memory.subject === null ? null : `\\x${hashSubjectHex(memory.subject)}`)],
  ['plan', 'jsonb', ({ metadata }) => JSON.stringify(metadata.plan)],
  ['started_at', 'timestamptz', ({ metadata }) => new Date(metadata.startedAt).toISOString()],
  ['vendor_called', 'boolean', ({ result }) => reachedVendor(result)],
  ['unmetered', 'boolean', ({ metadata }) => metadata.unmetered === true],
  ['takes_slot', 'boolean', ({ metadata }) => metadata.takesNoSlot !== true],
  ['units', 'jsonb', ({ result }) => (result.units === undefined ? null : JSON.stringify(result.units))],
];

const insertCalls = `${insertInto('calls', callColumns)} on conflict (id) do nothing returning id`;

const attemptColumns: readonly Column<{ readonly callId: string; readonly attempt: Attempt }>[] = [
  ['call_id', 'uuid', ({ callId }) => callId],
  ['n', 'integer', ({ attempt }) => attempt.n],
  ['provider', 'text', ({ attempt }) => attempt.provider],
  ['model', 'text', ({ attempt }) => attempt.model],
  ['status', 'integer', ({ attempt }) => attempt.status],
  ['outcome', 'text', ({ attempt }) => attempt.outcome],
  ['wait_ms', 'integer', ({ attempt }) => toMilliseconds(attempt.waitMs)],
  ['started_at', 'timestamptz', ({ attempt }) => new Date(attempt.startedAt).toISOString()],
  ['first_byte_ms', 'integer', ({ attempt }) => toMillisecondsOrNull(attempt.firstByteMs)],
  ['duration_ms', 'integer', ({ attempt }) => toMilliseconds(attempt.durationMs)],
  ['tokens_input', 'bigint', ({ attempt }) => toInteger(attempt.tokens.input)],
  ['tokens_cached_input', 'bigint', ({ attempt }) => toInteger(attempt.tokens.cachedInput)],
  ['tokens_cache_write', 'bigint', ({ attempt }) => toInteger(attempt.tokens.cacheWrite)],
  ['tokens_cache_write_1h', 'bigint', ({ attempt }) => toInteger(attempt.tokens.cacheWrite1h)],
  ['tokens_output', 'bigint', ({ attempt }) => toInteger(attempt.tokens.output)],
  ['cost_nanos', 'bigint', ({ attempt }) => toIntegerOrNull(attempt.costNanos)],
];

const insertAttempts = `${insertInto('attempts', attemptColumns)} on conflict (call_id, n) do nothing`;

function insertInto<Item>(table: string, columns: readonly Column<Item>[]): string {
  const names = columns.map(([name]) => name);
  const arrays = columns.map(([, sqlType], index) => `$${index + 1}::${sqlType}[]`);
  return `insert into ${table} (${names.join(', ')}) select * from unnest(${arrays.join(', ')})`;
}

function toArrays<Item>(columns: readonly Column<Item>[], items: readonly Item[]): string[] {
  return columns.map(([, , toValue]) => toArrayLiteral(items, toValue));
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
