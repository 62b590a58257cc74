/**
 * Connects the console's pages for keys, applications, routing, prices, rules, people, members and the audit log to
 * their modules.
 */

import type { ReadCounters } from '../ceilings/counter-usage.ts';
import type { CatalogRow } from '../config/config.ts';
import { convertTable, PriceTableError } from '../config/convert-price-table.ts';
import { getHost } from '../config/starter-models.ts';
import { createApplicationRoutes } from '../console/applications/routes.ts';
import { createAuditRoutes } from '../console/audit/routes.ts';
import type { ReadHealth } from '../console/frame/provider-health.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { createKeyRoutes } from '../console/keys/routes.ts';
import { createMemberRoutes } from '../console/members/member-routes.ts';
import { createPeopleRoutes } from '../console/members/people-routes.ts';
import type { PricedModel } from '../console/prices/price-columns.ts';
import { createPriceRoutes } from '../console/prices/routes.ts';
import { createProjectSettingsRoutes } from '../console/routing/project-form.ts';
import { createRoutingRoutes } from '../console/routing/routes.ts';
import { createRuleRoutes } from '../console/rules/routes.ts';
import { gatewayError } from '../core/errors.ts';
import { createDryRun } from '../pipeline/call/dry-run.ts';
import { toPrice } from '../routing/catalog.ts';
import type { Analytics } from '../usage/analytics/analytics.ts';
import type { ConsoleDeps } from './console-deps.ts';

type Modules = 'keyring' | 'projects' | 'people' | 'audit' | 'activeModels' | 'breakers' | 'pools';
type Functions = 'snapshot' | 'readCounters' | 'readStored' | 'readBreakers';

export interface ManagementAreasDeps extends Pick<ConsoleDeps, Modules | Functions | 'database' | 'clock'> {
  readonly readHealth: ReadHealth;
}

export function managementAreas(
  deps: ManagementAreasDeps,
  analytics: Pick<Analytics, 'callsById' | 'figures' | 'keyUse' | 'recordedRefusals'>,
): readonly ConsoleRoute[] {
  const { snapshot, database, readStored, keyring, projects, people, audit, breakers, pools, readBreakers, clock } = deps;
  const { applications, contentRules } = projects;
  /** Wait until calls that have just ended are stored, so that the counters include them. */
  const readCounters: ReadCounters = (projectId, keys) => readStored(() => deps.readCounters(projectId, keys), projectId);
  const catalog = () => snapshot().catalog;
  const catalogFill = () => snapshot().config.catalogFill;
  const onBudgetStoreDown = () => snapshot().config.onBudgetStoreDown;
  return [
    // The key pages read all of their figures in a single `readStored`. Our own `readCounters` would wait for stored
    // calls a second time, so pass the original one.
    ...createKeyRoutes({ keyring, queries: database, analytics, readCounters: deps.readCounters, readStored, catalog, onBudgetStoreDown }),
    ...createApplicationRoutes({ applications, analytics, readCounters, readStored, catalog, catalogFill }),
    ...createRoutingRoutes({
      ...{ projects, keyring, contentRules, breakers, readBreakers, catalog, catalogFill, readStored },
      readHealth: deps.readHealth,
      listProviders: () =>
        Object.values(snapshot().config.providers).map(({ name, baseUrl, dialect, serves, tags }) => ({
          ...{ name, dialect, serves, tags },
          host: getHost(baseUrl),
        })),
      runDry: createDryRun({
        ...{ catalog, catalogFill, breakers, pools, readCounters, clock },
        classifier: () => snapshot().config.auto.classifier,
      }),
    }),
    ...createProjectSettingsRoutes({ projects, readCounters, onBudgetStoreDown }),
    ...priceRoutes(deps),
    ...createRuleRoutes({ contentRules, ruleHits: projects.ruleHits, analytics, readStored }),
    ...createMemberRoutes(people),
    ...createPeopleRoutes(people),
    ...createAuditRoutes({ audit, people, queries: database }),
  ];
}

function priceRoutes({ activeModels, database, snapshot }: ManagementAreasDeps): readonly ConsoleRoute[] {
  const toModel = (row: CatalogRow): PricedModel => ({ ...row, price: toPrice(row) });
  const toMap = (models: Readonly<Record<string, CatalogRow>>) => new Map(Object.entries(models).map(([id, row]) => [id, toModel(row)]));
  return createPriceRoutes({
    listModels: () => Object.values(activeModels.models()).map(toModel),
    queries: database,
    convertTable(text, as) {
      const providers = Object.values(snapshot().config.providers).map(({ name, vendor, serves }) => ({ name, vendor, serves }));
      try {
        return convertTable({ text, name: 'the text', providers, as });
      } catch (cause) {
        if (!(cause instanceof PriceTableError)) throw cause;
        const path = cause.input === 'as' ? 'as' : 'table';
        throw gatewayError('bad_request', { issues: [{ path, message: cause.message }], cause });
      }
    },
    preview(models) {
      const { receipt, before, after } = activeModels.preview(models);
      return { receipt, before: toMap(before), after: toMap(after) };
    },
    importModels: activeModels.import,
  });
}
