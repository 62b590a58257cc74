import { expect, test } from '@jest/globals';
import { createCurrentPlanner } from '../../src/app/call-handler.ts';
import type { ConfigSnapshot } from '../../src/app/config-snapshot.ts';
import { createBreakers } from '../../src/failover/breaker.ts';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { createPoolState } from '../../src/routing/pools.ts';
import { callerWith, project, source } from '../routing/plans.ts';

function snapshotOf(catalog: ConfigSnapshot['catalog']): ConfigSnapshot {
  return { config: { catalogFill: false }, catalog } as ConfigSnapshot;
}

test('reuses the planner until the configuration is reloaded, then plans with the new catalog', () => {
  let current = snapshotOf(buildCatalog(source));
  const planner = createCurrentPlanner(() => current, createBreakers({ now: () => 0 }), createPoolState());
  const request = { caller: callerWith(null), project, source: 'acme', route: 'chat', requestedModel: 'auto' } as const;
  expect(planner().plan(request).candidates).toHaveLength(2);
  expect(planner()).toBe(planner());
  current = snapshotOf(buildCatalog({ ...source, tiers: { standard: ['azure/mini'] } }));
  expect(planner().plan(request).candidates).toMatchObject([{ id: 'azure/mini' }]);
});
