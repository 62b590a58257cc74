/**
 * Counts the input tokens of a messages request. We ask the first vendor in the plan that supports this, or estimate
 * the number if that fails. Counting is free, doesn't count against any ceiling and isn't recorded. But it's refused if
 * the key has reached a ceiling.
 *
 * Neither successes nor failures affect the provider's circuit breaker, because vendors limit this route separately,
 * and many that serve messages don't have it.
 */
import type { Call } from '../../core/call.ts';
import { connectionKey } from '../../core/candidate.ts';
import { gatewayError, VendorError } from '../../core/errors.ts';
import { splice } from '../../core/json/spans.ts';
import { modelNameAt } from '../../core/request-format.ts';
import type { Clock } from '../../core/time.ts';
import { countTokens as codec, estimateInputTokens } from '../../dialects/messages/count-tokens.ts';
import type { AttemptFailure } from '../../failover/chain.ts';
import { classifyFailure, isFinalRefusal } from '../../failover/classify-failure.ts';
import type { Logger } from '../../observability/logger.ts';
import type { TierRequest } from '../../routing/classify.ts';
import type { Planner } from '../../routing/plan.ts';
import type { PoolState } from '../../routing/pools.ts';
import type { VendorHttpClient } from '../../vendors/http-client.ts';
import { sendToVendor } from '../../vendors/text.ts';
import type { Provider } from '../../vendors/vendor.ts';
import { affinityOf, conversationPosition } from './affinity.ts';
import { refusalOf } from './chain-error.ts';
import type { CheckCeilings } from './check-ceilings.ts';
import { createRuleEnforcer } from './enforce-rules.ts';
import { forwardedHeadersFor } from './forwarded-headers.ts';
import type { ProjectContext } from './project-context.ts';

export interface CountTokensDeps {
  /**
   * This planner must not take the breakers' probe slots, because counting tokens doesn't show whether calls would
   * succeed.
   */
  readonly planner: Planner;
  readonly chooseTier: (request: TierRequest) => Promise<string>;
  readonly httpClient: VendorHttpClient;
  readonly findProvider: (name: string) => Provider | undefined;
  readonly pools: PoolState;
  readonly checkCeilings: CheckCeilings;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface TokenCount {
  /** JSON with `input_tokens`. If a vendor did the count, this is its unchanged response. */
  readonly bytes: Buffer;
  /** The model that did the count, as `<provider>/<model>`. It's null if this is our own estimate. */
  readonly countedBy: string | null;
}

/**
 * If `signal` aborts, we stop asking vendors and return the estimate. Throws `no_route`, `subscription_required`,
 * `guardrail_blocked` or the error of a ceiling that is reached. Throws `upstream_refused` if all vendors that we asked
 * rejected the request.
 */
export type CountTokens = (call: Call, project: ProjectContext, signal: AbortSignal) => Promise<TokenCount>;

export function createCountTokens(deps: CountTokensDeps): CountTokens {
  const { planner, chooseTier, httpClient, findProvider, pools, checkCeilings, clock, logger } = deps;
  const { checkInput } = createRuleEnforcer({ logger });

  return async function countTokens(call, project, signal) {
    const { caller, source, route, requestedModel, body, spans } = call;
    // Counting tokens is free, so don't let the classifier make a paid call to a model.
    const complete = () => Promise.reject(new Error('expected no model to be called to count tokens'));
    const autoTier = await chooseTier({ project, source, route, requestedModel, body, spans, remainingMs: null, complete });
    const request = { caller, project, source, route, requestedModel, autoTier, conversation: () => conversationPosition(call) };
    const { candidates } = planner.order(planner.plan(request), { ...request, affinity: () => affinityOf(call, pools) });
    if (!project.mayCall) throw gatewayError('subscription_required');
    await checkCeilings(call, project);
    if (project.rules.input)
      await checkInput(call, project.rules.input, signal).catch((error: unknown) => {
        // Don't throw if the check was aborted. The loop below then skips all vendors, and we return an estimate.
        if (!signal.aborted) throw error;
      });

    const failures: AttemptFailure[] = [];
    /**
     * Models that rejected the request. We don't ask other members of the same pool, because they would reject it too.
     */
    const refusedModels = new Set<string>();
    for (const candidate of candidates) {
      if (refusedModels.has(candidate.id)) continue;
      const provider = findProvider(connectionKey(candidate));
      if (candidate.dialect !== 'messages' || !provider || provider.requests.paths[codec.path] === null || signal.aborted) continue;
      try {
        const { bytes } = await countAt(call, provider, modelNameAt(provider.requests, candidate.model), signal);
        return { bytes, countedBy: candidate.id };
      } catch (error) {
        if (!(error instanceof VendorError)) throw error;
        failures.push({ candidate, error });
        if (isFinalRefusal(error)) refusedModels.add(candidate.id);
      }
    }
    // A 404 or 405 means that the vendor doesn't have this route, so we estimate the tokens instead.
    const refusal = failures.every(({ error }) => classifyFailure(error) === 'refused') ? refusalOf(failures) : null;
    if (refusal) throw refusal;
    return { bytes: Buffer.from(JSON.stringify({ input_tokens: estimateInputTokens(body, spans) })), countedBy: null };
  };

  async function countAt(call: Call, provider: Provider, model: string, signal: AbortSignal): Promise<{ bytes: Buffer }> {
    const response = await sendToVendor(httpClient, {
      provider,
      codec,
      model,
      body: splice(call.body, codec.patchForVendor(call.body, call.spans, model, false)),
      stream: false,
      forwardedHeaders: forwardedHeadersFor('messages', call, provider.requests).headers,
      signal,
      now: () => clock.now(),
    });
    if (response.kind === 'stream') throw new VendorError('unreadable', 'the vendor streamed its token count, which is not supported');
    return response;
  }
}
