/** Handles calls with the current configuration. Calls that are already running keep the one they started with. */

import type { Breakers } from '../failover/breaker.ts';
import { type CountTokens, type CountTokensDeps, createCountTokens } from '../pipeline/call/count-tokens.ts';
import { createHandleCall, type HandleCall, type HandleCallDeps } from '../pipeline/call/handle-call.ts';
import { chooseTier } from '../routing/classify.ts';
import { createPlanner, type Planner } from '../routing/plan.ts';
import { type ConfigSnapshot, perSnapshot } from './config-snapshot.ts';

type CallHandlerDeps = Omit<HandleCallDeps, 'planner' | 'chooseTier' | 'findProvider' | 'revision'>;

export function createCallHandler(snapshot: () => ConfigSnapshot, deps: CallHandlerDeps): HandleCall {
  const handler = perSnapshot(snapshot, (current) =>
    createHandleCall({ ...deps, ...routingOf(current, deps.breakers, deps.pools), revision: current.revision }),
  );
  return (call, project, cancellation) => handler()(call, project, cancellation);
}

type TokenCounterDeps = Pick<CountTokensDeps, 'httpClient' | 'pools' | 'checkCeilings' | 'clock' | 'logger'> & {
  readonly breakers: Breakers;
};

/** Counts the tokens of requests, always with the current configuration. */
export function createTokenCounter(snapshot: () => ConfigSnapshot, { breakers, ...deps }: TokenCounterDeps): CountTokens {
  // Counting tokens shouldn't take the probe slot of a half-open breaker. There's no call whose end would release the
  // slot.
  const withoutProbes = { ...breakers, tryAcquire: breakers.canAcquire };
  const counter = perSnapshot(snapshot, (current) => createCountTokens({ ...deps, ...routingOf(current, withoutProbes, deps.pools) }));
  return (...request) => counter()(...request);
}

export function createCurrentPlanner(snapshot: () => ConfigSnapshot, breakers: Breakers, pools: HandleCallDeps['pools']): () => Planner {
  return perSnapshot(snapshot, (current) => routingOf(current, breakers, pools).planner);
}

function routingOf(
  { config, catalog, providers }: ConfigSnapshot,
  breakers: Breakers,
  { loads }: HandleCallDeps['pools'],
): Pick<HandleCallDeps, 'planner' | 'chooseTier' | 'findProvider'> {
  return {
    planner: createPlanner({ catalog, breakers, catalogFill: config.catalogFill, loads }),
    chooseTier: (request) => chooseTier({ catalog, classifier: config.auto.classifier }, request),
    findProvider: (name) => providers.get(name),
  };
}
