import { createCallListRoutes } from '../console/calls/call-list-page.ts';
import { createCallPageRoutes } from '../console/calls/call-page.ts';
import { createRefusedListRoutes } from '../console/calls/refused-list-page.ts';
import { createDeploymentRoutes } from '../console/deployment/routes.ts';
import { createExploreRoutes } from '../console/explore/explore-page.ts';
import type { ReadHealth } from '../console/frame/provider-health.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { createOverviewRoutes } from '../console/overview/overview-page.ts';
import type { Project } from '../projects/projects.ts';
import { splitModelId } from '../routing/catalog.ts';
import { breakerKeys } from '../routing/pools.ts';
import type { Analytics } from '../usage/analytics/analytics.ts';
import type { ConsoleDeps } from './console-deps.ts';
import { createReadSetup } from './project-setup.ts';

/** The maximum number of suggestions per filter, because more would make the pages large. */
const maxSuggestions = 200;

export interface UsageAreasDeps
  extends Pick<ConsoleDeps, 'database' | 'snapshot' | 'keyring' | 'projects' | 'readBreakers' | 'readCounters' | 'readStored'> {
  readonly readHealth: ReadHealth;
}

export function usageAreas(deps: UsageAreasDeps, analytics: Analytics): readonly ConsoleRoute[] {
  const { database, snapshot, keyring, projects, readBreakers, readHealth, readCounters, readStored } = deps;
  const listKeys = keyring.list;
  const breakersOf = (project: Project): string[] => providersOf(project).flatMap((name) => breakerKeys(snapshot().catalog, name));
  const providersOf = ({ settings: { providers } }: Project): string[] =>
    [...snapshot().catalog.served.keys()].filter((name) => providers?.includes(name) ?? true);
  const filterChoices = async ({ project }: { readonly project: Project }) => {
    const providers = new Set(providersOf(project));
    const models = [...snapshot().catalog.models.keys()].filter((id) => providers.has(splitModelId(id)?.provider ?? ''));
    return {
      applications: [...project.settings.applications.keys()].slice(0, maxSuggestions),
      models: models.slice(0, maxSuggestions),
      keys: (await listKeys(project.id)).slice(0, maxSuggestions),
    };
  };
  const calls = { queries: database, analytics, readStored, filterChoices, listKeys, readCounters };
  const readSetup = createReadSetup({ database, snapshot, providersOf });
  const canaries = () => [...snapshot().catalog.canaries].map(([tier, canary]) => ({ tier, ...canary }));
  return [
    ...createDeploymentRoutes({
      ...{ projects, analytics, queries: database, readCounters, readHealth, readStored },
      providerNames: () => Object.keys(snapshot().config.providers),
    }),
    ...createOverviewRoutes({ analytics, readStored, listKeys, readCounters, readBreakers, readHealth, breakersOf, readSetup }),
    ...createExploreRoutes({ queries: database, analytics, readStored, filterChoices, canaries }),
    ...createCallListRoutes(calls),
    ...createRefusedListRoutes(calls),
    ...createCallPageRoutes(calls),
  ];
}
