/** Connects the console's pages about usage to their modules. */

import type { ReadCounters } from '../ceilings/counter-usage.ts';
import { createCallListRoutes } from '../console/calls/call-list-page.ts';
import { createCallPageRoutes } from '../console/calls/call-page.ts';
import { createRefusedListRoutes } from '../console/calls/refused-list-page.ts';
import { createDeploymentRoutes } from '../console/deployment/routes.ts';
import { createExploreRoutes } from '../console/explore/explore-page.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { createOverviewRoutes } from '../console/overview/overview-page.ts';
import type { Database } from '../db/database.ts';
import { defaultLivenessTimeoutMs } from '../journal/heartbeat.ts';
import { readKeyRecords } from '../keys/key-store.ts';
import type { Keyring } from '../keys/keyring.ts';
import { findSubjects } from '../memory/conversations/find-subjects.ts';
import { readCallMemory, readCallText } from '../memory/conversations/read-call-text.ts';
import { findPersonNames } from '../people/person-names.ts';
import type { Project, Projects } from '../projects/projects.ts';
import { splitModelId } from '../routing/catalog.ts';
import { readOpenBreakers } from '../routing/open-breakers.ts';
import { breakerKeys } from '../routing/pools.ts';
import type { ReadBreakers } from '../routing/shared-breakers.ts';
import type { Analytics } from '../usage/analytics/analytics.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';
import { createReadSetup } from './project-setup.ts';

/** Limits how much text of a call a page shows, because a prompt may have thousands of messages. */
const textLimits = { maxMessages: 100, maxText: 20_000 };
/** The maximum number of suggestions per filter, which keeps pages small. */
const maxSuggestions = 200;

export interface UsageAreasDeps {
  readonly database: Database;
  readonly snapshot: () => ConfigSnapshot;
  readonly keyring: Pick<Keyring, 'list'>;
  readonly projects: Pick<Projects, 'list'>;
  readonly readBreakers: ReadBreakers;
  readonly readCounters: ReadCounters;
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
}

export function usageAreas(deps: UsageAreasDeps, analytics: Analytics): readonly ConsoleRoute[] {
  const { database, snapshot, keyring, readBreakers, readCounters, readStored } = deps;
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
  const readSetup = createReadSetup({ database, snapshot, providersOf });
  const canaries = () => [...snapshot().catalog.canaries].map(([tier, canary]) => ({ tier, ...canary }));
  return [
    ...createDeploymentRoutes({
      ...{ analytics, readStored, readCounters },
      listProjects: deps.projects.list,
      findKeys: (ids) => readKeyRecords(database, ids),
      findNames: (ids) => findPersonNames(database, ids),
      readOpenBreakers: () => readOpenBreakers(database, defaultLivenessTimeoutMs),
      providerNames: () => Object.keys(snapshot().config.providers),
    }),
    ...createOverviewRoutes({ analytics, readStored, listKeys, readCounters, readBreakers, breakersOf, readSetup }),
    ...createExploreRoutes({
      ...{ analytics, readStored, filterChoices, canaries },
      findSubjects: (projectId, hashes) => findSubjects(database, projectId, hashes),
      findNames: (ids) => findPersonNames(database, ids),
    }),
    ...createCallListRoutes({ analytics, readStored, filterChoices }),
    ...createRefusedListRoutes({ analytics, readStored, filterChoices }),
    ...createCallPageRoutes({
      analytics,
      readStored,
      listKeys,
      readCounters,
      readCallMemory: (projectId, callId) => readCallMemory(database, projectId, callId),
      readCallText: (projectId, callId) => readCallText(database, projectId, callId, textLimits),
      publicUrl: () => snapshot().config.publicUrl,
    }),
  ];
}
