/**
 * Connects the console's pages about keys, applications, routing, prices, rules, people, members and audit to their
 * modules.
 */

import type { ReadCounters } from '../ceilings/counter-usage.ts';
import type { CatalogRow } from '../config/config.ts';
import { convertTable, PriceTableError } from '../config/convert-price-table.ts';
import { getHost } from '../config/starter-models.ts';
import { createApplicationRoutes } from '../console/applications/routes.ts';
import { createAuditRoutes } from '../console/audit/routes.ts';
import { readProjects } from '../console/deployment/read-deployment.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { createKeyRoutes } from '../console/keys/routes.ts';
import { createMemberRoutes } from '../console/members/member-routes.ts';
import { createPeopleRoutes } from '../console/members/people-routes.ts';
import { createProjectRoutes } from '../console/members/project-routes.ts';
import type { PricedModel } from '../console/prices/price-columns.ts';
import { createPriceRoutes } from '../console/prices/routes.ts';
import { createProjectSettingsRoutes } from '../console/routing/project-form.ts';
import { createRoutingRoutes } from '../console/routing/routes.ts';
import { createRuleRoutes } from '../console/rules/routes.ts';
import { gatewayError } from '../core/errors.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { Audit } from '../people/audit.ts';
import type { People } from '../people/people.ts';
import { findPersonNames } from '../people/person-names.ts';
import { signInLinkUrl } from '../people/sign-in-links.ts';
import { createDryRun } from '../pipeline/call/dry-run.ts';
import type { Projects } from '../projects/projects.ts';
import { toPrice } from '../routing/catalog.ts';
import { findModelStates } from '../routing/key-models.ts';
import type { PoolState } from '../routing/pools.ts';
import type { ReadBreakers } from '../routing/shared-breakers.ts';
import type { Analytics } from '../usage/analytics/analytics.ts';
import { lastCalls, lastErrors } from '../usage/last-calls.ts';
import type { ActiveModels } from '../usage/prices/active-models.ts';
import { latestPrices, priceHistory } from '../usage/prices/price-history.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';

export interface ManagementAreasDeps {
  readonly snapshot: () => ConfigSnapshot;
  readonly database: Database;
  readonly readCounters: ReadCounters;
  /** Runs a query after this process has stored its calls. */
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
  readonly keyring: Keyring;
  readonly projects: Projects;
  readonly people: People;
  readonly audit: Audit;
  readonly breakers: Breakers;
  readonly pools: PoolState;
  readonly readBreakers: ReadBreakers;
  readonly activeModels: ActiveModels<CatalogRow>;
  readonly clock: Clock;
}

export function managementAreas(
  deps: ManagementAreasDeps,
  analytics: Pick<Analytics, 'callsById' | 'deployment' | 'figures' | 'keyUse'>,
): readonly ConsoleRoute[] {
  const { snapshot, database, readStored, keyring, projects, people, audit, breakers, pools, readBreakers, clock } = deps;
  const { applications, contentRules } = projects;
  /** Includes the calls that have just ended. */
  const readCounters: ReadCounters = (projectId, keys) => readStored(() => deps.readCounters(projectId, keys));
  const catalog = () => snapshot().catalog;
  const catalogFill = () => snapshot().config.catalogFill;
  const onBudgetStoreDown = () => snapshot().config.onBudgetStoreDown;
  const linkUrl = (origin: string, secret: string): string => signInLinkUrl(snapshot().config.publicUrl ?? origin, secret);
  return [
    ...createKeyRoutes({
      ...{ keyring, readCounters, onBudgetStoreDown },
      lastCalls: (keyIds) => readStored(() => lastCalls(database, keyIds)),
      lastErrors: (keyIds) => readStored(() => lastErrors(database, keyIds)),
      modelStates: ({ settings }, names) => findModelStates({ catalog: catalog(), project: settings }, names),
      keyUse: (projectId, request) => readStored(() => analytics.keyUse(projectId, request)),
    }),
    ...createApplicationRoutes({
      ...{ applications, readCounters, catalog, catalogFill },
      recentUse: async (projectId, range) => {
        const { groups } = await readStored(() => analytics.figures({ projectId, ...range, group: 'source', top: 200 }));
        return new Map(
          groups.flatMap(({ name, figures }) =>
            name === null ? [] : [[name, { calls: figures.calls, cost: figures.costNanos }] as const],
          ),
        );
      },
    }),
    ...createRoutingRoutes({
      ...{ projects, keyring, contentRules, breakers, readBreakers, catalog, catalogFill },
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
    ...createRuleRoutes({
      ...{ contentRules, ruleHits: projects.ruleHits },
      readCalls: (projectId, callIds) => readStored(() => analytics.callsById(projectId, callIds)),
    }),
    ...createMemberRoutes({ people, linkUrl }),
    ...createPeopleRoutes({ people, linkUrl }),
    ...createProjectRoutes({ projects, readFigures: (list, view) => readStored(() => readProjects({ analytics }, list, view)) }),
    ...createAuditRoutes({
      ...{ audit, accounts: people.accounts, members: people.members },
      findNames: (ids) => findPersonNames(database, ids),
    }),
  ];
}

function priceRoutes({ activeModels, database, snapshot }: ManagementAreasDeps): readonly ConsoleRoute[] {
  const toModel = (row: CatalogRow): PricedModel => ({ ...row, price: toPrice(row) });
  const toMap = (models: Readonly<Record<string, CatalogRow>>) => new Map(Object.entries(models).map(([id, row]) => [id, toModel(row)]));
  return createPriceRoutes({
    listModels: () => Object.values(activeModels.models()).map(toModel),
    latestPrices: (models) => latestPrices(database, models),
    priceHistory: (model) => priceHistory(database, model),
    convertTable(text, as) {
      const providers = Object.values(snapshot().config.providers).map(({ name, vendor, serves }) => ({ name, vendor, serves }));
      try {
        return convertTable({ text, name: 'the text', providers, as });
      } catch (cause) {
        if (cause instanceof PriceTableError)
          throw gatewayError('bad_request', { issues: [{ path: 'table', message: cause.message }], cause });
        throw cause;
      }
    },
    preview(models) {
      const { receipt, before, after } = activeModels.preview(models);
      return { receipt, before: toMap(before), after: toMap(after) };
    },
    importModels: activeModels.import,
  });
}
