/** Handles calls with the current configuration. A call in progress keeps the configuration it started with. */

import type { Breakers } from '../failover/breaker.ts';
import { type CountTokens, type CountTokensDeps, createCountTokens } from '../pipeline/call/count-tokens.ts';
import { createHandleCall, type HandleCall, type HandleCallDeps } from '../pipeline/call/handle-call.ts';
import { chooseTier } from '../routing/classify.ts';
import { createPlanner } from '../routing/plan.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';

type CallHandlerDeps = Omit<HandleCallDeps, 'planner' | 'chooseTier' | 'findProvider' | 'revision'>;

export function createCallHandler(snapshot: () => ConfigSnapshot, deps: CallHandlerDeps): HandleCall {
  let handler: { readonly snapshot: ConfigSnapshot; readonly handle: HandleCall } | null = null;
  return (call, project, cancellation) => {
    const current = snapshot();
    if (handler?.snapshot !== current) handler = { snapshot: current, handle: createForSnapshot(current, deps) };
    return handler.handle(call, project, cancellation);
  };
}

function createForSnapshot({ config, catalog, providers, revision }: ConfigSnapshot, deps: CallHandlerDeps): HandleCall {
  return createHandleCall({
    ...deps,
    planner: createPlanner({
      catalog: () => catalog,
      breakers: deps.breakers,
      catalogFill: () => config.catalogFill,
      loads: deps.pools.loads,
    }),
    chooseTier: (request) => chooseTier({ catalog, classifier: config.auto.classifier }, request),
    findProvider: (name) => providers.get(name),
    revision,
  });
}

type TokenCounterDeps = Pick<CountTokensDeps, 'httpClient' | 'pools' | 'clock' | 'logger'> & { readonly breakers: Breakers };

/** Counts the tokens of a request with the current configuration. */
export function createTokenCounter(snapshot: () => ConfigSnapshot, { breakers, ...deps }: TokenCounterDeps): CountTokens {
  return createCountTokens({
    ...deps,
    planner: createPlanner({
      catalog: () => snapshot().catalog,
      // Planning must not take the probe slot of a half-open breaker, because no call follows that would release it.
      breakers: { ...breakers, tryAcquire: breakers.canAcquire },
      catalogFill: () => snapshot().config.catalogFill,
      loads: deps.pools.loads,
    }),
    chooseTier: (request) => chooseTier({ catalog: snapshot().catalog, classifier: snapshot().config.auto.classifier }, request),
    findProvider: (name) => snapshot().providers.get(name),
  });
}
