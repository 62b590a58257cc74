/** Reads a call with its attempts and an itemized cost, but without its text. */
import type { Attempt, AttemptError, PlanEntry } from '../../core/call.ts';
import type { CallUnits, Tokens } from '../../core/pricing.ts';
import type { Queries } from '../../db/database.ts';
import { attemptErrorSql } from '../attempt-errors.ts';
import { priceAt } from '../prices/price-history.ts';
import type { CallSummary } from './call-list.ts';
import { type CostBreakdown, explainCost } from './cost-lines.ts';

export interface CallDetail extends Omit<CallSummary, 'input' | 'cachedInput' | 'cacheWrite' | 'output' | 'attempts'> {
  readonly keyId: string;
  readonly tokens: Tokens;
  readonly units: CallUnits | null;
  readonly estimated: boolean;
  /** True if the call reached a vendor. Other calls don't count against ceilings. */
  readonly vendorCalled: boolean;
  readonly unmetered: boolean;
  readonly triggerKind: string | null;
  readonly triggerDetail: string | null;
  readonly iteration: number | null;
  readonly distilSaved: number | null;
  readonly subjectSha256: string | null;
  readonly plan: readonly PlanEntry[];
  readonly attempts: readonly AttemptDetail[];
  readonly cost: CostBreakdown;
}

type AttemptFields = 'n' | 'provider' | 'model' | 'status' | 'outcome' | 'waitMs' | 'firstByteMs' | 'durationMs' | 'costNanos';

export interface AttemptDetail extends Pick<Attempt, AttemptFields> {
  /** Null if the provider has no pool. */
  readonly member: string | null;
  /** The vendor's own id for the request, e.g. for its support team. Null if the vendor didn't send one. */
  readonly requestId: string | null;
  readonly startedAt: Date;
  readonly input: number;
  readonly output: number;
  /** Why the attempt failed. Null if it succeeded, or if the reason has been deleted. */
  readonly error: AttemptError | null;
}

type StoredCall = Omit<CallDetail, 'tokens' | 'attempts' | 'cost'> & Tokens;

/** Returns null if the project has no such call. */
export async function readCallDetail(queries: Queries, projectId: string, callId: string): Promise<CallDetail | null> {
  const [stored] = await queries.query<StoredCall>(
    `select id, started_at as "startedAt", key_id as "keyId", key_prefix as "keyPrefix", source, route, model_asked as "requestedModel", model,
            stream, status, code, outcome, cache, cost_nanos as "costNanos", duration_ms as "durationMs", first_byte_ms as "firstByteMs",
            task_id as "taskId", turn_id as "turnId", agent_id as "agentId", trigger_kind as "triggerKind",
            trigger_detail as "triggerDetail", iteration, distil_saved as "distilSaved",
            encode(subject_sha256, 'hex') as "subjectSha256", plan, estimated, vendor_called as "vendorCalled", unmetered, units,
            tokens_input as input, tokens_cached_input as "cachedInput", tokens_cache_write as "cacheWrite",
            tokens_cache_write_1h as "cacheWrite1h", tokens_output as output
       from calls
      where id = $1::uuid and project_id = $2::uuid`,
    [callId, projectId],
  );
  if (!stored) return null;
  const { input, cachedInput, cacheWrite, cacheWrite1h, output, ...call } = stored;
  const tokens: Tokens = { input, cachedInput, cacheWrite, cacheWrite1h, output };
  const [attempts, prices] = await Promise.all([
    queries.query<AttemptDetail>(
      `select n, provider, model, member, status, outcome, request_id as "requestId", wait_ms as "waitMs", started_at as "startedAt", first_byte_ms as "firstByteMs",
              duration_ms as "durationMs", tokens_input + tokens_cached_input + tokens_cache_write + tokens_cache_write_1h as input,
              tokens_output as output, cost_nanos as "costNanos", ${attemptErrorSql} as error
         from attempts left join attempt_errors using (call_id, n) where call_id = $1::uuid order by n`,
      [callId],
    ),
    call.model === null ? null : priceAt(queries, call.model, call.startedAt.getTime()),
  ]);
  return { ...call, tokens, attempts, cost: explainCost({ ...call, tokens, earlierNanos: earlierCosts(attempts) }, prices) };
}

/**
 * Returns the cost of each billed attempt except the last. They're listed separately because the token counts of a call
 * only cover the last one.
 */
function earlierCosts(attempts: readonly AttemptDetail[]): readonly number[] {
  const billed = attempts.filter(({ input, output }) => input + output > 0);
  return billed.slice(0, -1).map(({ costNanos }) => costNanos ?? 0);
}
