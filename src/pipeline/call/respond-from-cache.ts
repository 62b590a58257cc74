/** Serves a call from the response cache. */
import type { Call, Outcome, SettledCall } from '../../core/call.ts';
import type { Clock } from '../../core/time.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import type { Plan } from '../../routing/plan.ts';
import { replayCached } from '../cache/replay-cached.ts';
import type { CacheHit } from '../cache/response-cache.ts';
import { type CallResponse, once } from './call-response.ts';
import type { CallCancellation } from './cancellation.ts';
import { deliverStream } from './deliver-stream.ts';
import type { createRuleEnforcer } from './enforce-rules.ts';
import type { ProjectContext } from './project-context.ts';
import { type CallEnd, settleCacheHit, toTextCallMetadata } from './settle.ts';

interface CachedCall {
  readonly call: Call;
  readonly project: ProjectContext;
  readonly cancellation: CallCancellation;
  readonly plan: Plan;
  /** The ids of the recalled memory items. */
  readonly recalled: readonly string[];
}

interface RespondFromCacheDeps {
  readonly clock: Clock;
  readonly checkBytes: ReturnType<typeof createRuleEnforcer>['checkBytes'];
  /** Logs the call and writes its record to the journal. */
  readonly record: (call: Call, settled: SettledCall) => Promise<void>;
}

export function createRespondFromCache({ clock, checkBytes, record }: RespondFromCacheDeps) {
  return respondFromCache;

  /**
   * Returns a cached response. Such a call makes no attempts and costs nothing, so the journal only gets its final
   * record.
   */
  async function respondFromCache({ call, project, cancellation, plan, recalled }: CachedCall, hit: CacheHit): Promise<CallResponse> {
    cancellation.clearDeadline();
    const { bytes, contentType, model, summary, changes = null } = hit;
    const metadata = toTextCallMetadata(call, plan);
    const end = (): CallEnd => ({ call, sent: call, recalled, metadata, failed: [], endedAt: clock.now() });
    // The project may have made its rules stricter after the response was stored.
    const error = project.rules.output ? await checkBytes(call, project.rules.output, bytes) : null;
    if (error) {
      await record(call, settleCacheHit(end(), hit, { outcome: 'refused', error }));
      throw error;
    }
    const onEnd = (_summary: ResponseSummary, outcome: Outcome): Promise<void> =>
      record(call, settleCacheHit(end(), hit, { outcome, error: null }));
    if (call.stream)
      return {
        kind: 'stream',
        deliver: once((write) => deliverStream({ call, response: replayCached(hit, call), onEnd }, write)),
        model,
        cache: 'hit',
        recalled,
        changes,
      };
    await onEnd(summary, 'ok');
    return { kind: 'plain', status: 200, contentType, bytes, model, cache: 'hit', recalled, changes };
  }
}
