/** Stores settled calls with their attempts and failure reasons. Idempotent. */
import type { Attempt, AttemptError, PlanEntry, SettledCall } from '../core/call.ts';
import { reachedVendor } from '../core/ceiling-usage.ts';
import { hashSubjectHex } from '../core/subject.ts';
import type { Queries } from '../db/database.ts';
import { type Column, selectRows } from '../db/row-batches.ts';

/** Returns the calls that weren't stored before. */
export async function storeCalls(tx: Queries, calls: readonly SettledCall[]): Promise<readonly SettledCall[]> {
  if (calls.length === 0) return [];
  const insertCalls = insertInto('calls', callColumns, calls);
  const known = await tx.query<{ position: number }>(
    `with added as (${insertCalls.text} on conflict (id) do nothing returning id) ${selectKnown}`,
    insertCalls.values,
  );
  const positions = new Set(known.map(({ position }) => position));
  const added = positions.size === 0 ? calls : calls.filter((_, index) => !positions.has(index + 1));
  const attempts: CallAttempt[] = [];
  const errors: FailedAttempt[] = [];
  for (const call of added)
    for (const attempt of call.result.attempts) {
      attempts.push({ callId: call.metadata.id, attempt });
      if (attempt.error) errors.push({ call, n: attempt.n, error: attempt.error });
    }
  if (attempts.length > 0) {
    const insertAttempts = insertInto('attempts', attemptColumns, attempts);
    await tx.query(`${insertAttempts.text} on conflict (call_id, n) do nothing`, insertAttempts.values);
  }
  if (errors.length > 0) {
    const insertErrors = insertInto('attempt_errors', errorColumns, errors);
    await tx.query(`${insertErrors.text} on conflict (call_id, n) do nothing`, insertErrors.values);
  }
  return added;
}

/**
 * Returns the positions (starting at 1) of the calls that were already stored. There usually aren't any, so this
 * returns far fewer rows than if we selected the calls that were added.
 */
const selectKnown = `
  select position::integer from unnest($1::uuid[]) with ordinality as given (id, position)
   where (select count(*) from added) < cardinality($1::uuid[]) and not exists (select from added where added.id = given.id)`;

interface CallAttempt {
  readonly callId: string;
  readonly attempt: Attempt;
}

interface FailedAttempt {
  readonly call: SettledCall;
  readonly n: number;
  readonly error: AttemptError;
}

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
  ['subject_sha256', 'bytea', ({ metadata: { memory } }) => (memory.subject === null ? null : hashSubjectHex(memory.subject))],
  ['plan', 'jsonb', ({ metadata }) => toPlanText(metadata.plan)],
  ['started_at', 'float8', ({ metadata }) => metadata.startedAt],
  ['vendor_called', 'boolean', ({ result }) => reachedVendor(result)],
  ['unmetered', 'boolean', ({ metadata }) => metadata.unmetered === true],
  ['takes_slot', 'boolean', ({ metadata }) => metadata.takesNoSlot !== true],
  ['units', 'jsonb', ({ result }) => (result.units === undefined ? null : JSON.stringify(result.units))],
];

const attemptColumns: readonly Column<CallAttempt>[] = [
  ['call_id', 'uuid', ({ callId }) => callId],
  ['n', 'integer', ({ attempt }) => attempt.n],
  ['provider', 'text', ({ attempt }) => attempt.provider],
  ['model', 'text', ({ attempt }) => attempt.model],
  ['member', 'text', ({ attempt }) => attempt.member ?? null],
  ['status', 'integer', ({ attempt }) => attempt.status],
  ['request_id', 'text', ({ attempt }) => attempt.requestId ?? null],
  ['outcome', 'text', ({ attempt }) => attempt.outcome],
  ['wait_ms', 'integer', ({ attempt }) => toMilliseconds(attempt.waitMs)],
  ['started_at', 'float8', ({ attempt }) => attempt.startedAt],
  ['first_byte_ms', 'integer', ({ attempt }) => toMillisecondsOrNull(attempt.firstByteMs)],
  ['duration_ms', 'integer', ({ attempt }) => toMilliseconds(attempt.durationMs)],
  ['tokens_input', 'bigint', ({ attempt }) => toInteger(attempt.tokens.input)],
  ['tokens_cached_input', 'bigint', ({ attempt }) => toInteger(attempt.tokens.cachedInput)],
  ['tokens_cache_write', 'bigint', ({ attempt }) => toInteger(attempt.tokens.cacheWrite)],
  ['tokens_cache_write_1h', 'bigint', ({ attempt }) => toInteger(attempt.tokens.cacheWrite1h)],
  ['tokens_output', 'bigint', ({ attempt }) => toInteger(attempt.tokens.output)],
  ['cost_nanos', 'bigint', ({ attempt }) => toIntegerOrNull(attempt.costNanos)],
];

const errorColumns: readonly Column<FailedAttempt>[] = [
  ['call_id', 'uuid', ({ call }) => call.metadata.id],
  ['n', 'integer', ({ n }) => n],
  ['project_id', 'uuid', ({ call }) => call.metadata.projectId],
  ['reason', 'text', ({ error }) => error.reason],
  ['type', 'text', ({ error }) => error.type],
  ['code', 'text', ({ error }) => error.code],
  ['message', 'text', ({ error }) => error.message],
];

/** Returns a statement that inserts all rows. `started_at` is in milliseconds. The rows have the alias `new`. */
export function insertInto<Row>(table: string, columns: readonly Column<Row>[], rows: readonly Row[]): ReturnType<typeof selectRows> {
  const { text, values } = selectRows(columns, rows);
  const names = columns.map(([name]) => name);
  const selected = names.map((name) => (name === 'started_at' ? 'to_timestamp(started_at / 1000)' : name));
  return { text: `insert into ${table} (${names.join(', ')}) select ${selected.join(', ')} from (${text}) as new`, values };
}

/** All calls of a key share one plan object, so we only have to format each plan once. */
const planTexts = new WeakMap<readonly PlanEntry[], string>();

function toPlanText(plan: readonly PlanEntry[]): string {
  const known = planTexts.get(plan);
  if (known !== undefined) return known;
  const text = JSON.stringify(plan);
  planTexts.set(plan, text);
  return text;
}

/** Returns the closest safe integer, because bigint columns reject fractions and absurdly large values. */
function toInteger(value: number): number {
  if (Number.isNaN(value)) return 0;
  return Math.round(Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, value)));
}

function toIntegerOrNull(value: number | null): number | null {
  return value === null ? null : toInteger(value);
}

const maxInteger = 2_147_483_647;

/**
 * Converts a duration for an integer column, whose maximum is about 24 days. Returns 0 for a negative duration, which
 * means that the clock was set back.
 */
function toMilliseconds(value: number): number {
  return Math.min(maxInteger, Math.max(0, toInteger(value)));
}

function toMillisecondsOrNull(value: number | null): number | null {
  return value === null ? null : toMilliseconds(value);
}
