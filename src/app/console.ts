import { createAccountRoutes } from '../console/account/routes.ts';
import { createFindRoutes } from '../console/find/routes.ts';
import { createNavigation } from '../console/frame/nav.ts';
import { createReadHealth } from '../console/frame/provider-health.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { type ConsoleRouterOptions, createConsoleRouter } from '../console/frame/router.ts';
import { createWindowCounters } from '../console/frame/window-counters.ts';
import { createKeyHolderRoutes } from '../console/key-holder/routes.ts';
import { createOidcClient } from '../console/sign-in/oidc.ts';
import { createSignInRoutes } from '../console/sign-in/routes.ts';
import { defaultLivenessTimeoutMs } from '../journal/heartbeat.ts';
import { readOpenBreakers } from '../routing/open-breakers.ts';
import { createAnalytics } from '../usage/analytics/analytics.ts';
import type { ConsoleDeps } from './console-deps.ts';
import { managementAreas } from './console-management.ts';
import { memoryAreas } from './console-memory.ts';
import { playgroundArea } from './console-playground.ts';
import { usageAreas } from './console-usage.ts';

export function createConsole(deps: ConsoleDeps & Pick<ConsoleRouterOptions, 'bodyShares'>): ReturnType<typeof createConsoleRouter> {
  const { people, audit, projects, clock, logger } = deps;
  return createConsoleRouter({
    routes: consoleRoutes(deps),
    sessions: people.sessions,
    members: people.members,
    audit,
    findProject: projects.findBySlug,
    zoneOf: ({ settings }) => settings.timeZone,
    publicUrl: () => deps.snapshot().config.publicUrl,
    bodyShares: deps.bodyShares,
    clock,
    logger,
  });
}

/** Lists the console's areas in the order of its navigation. */
export function consoleRoutes(deps: ConsoleDeps): readonly ConsoleRoute[] {
  const analytics = createAnalytics(deps.database);
  const readCounters = createWindowCounters({ ...deps, analytics });
  const readHealth = createReadHealth({
    analytics,
    readOpenBreakers: () => readOpenBreakers(deps.database, defaultLivenessTimeoutMs),
  });
  const routes: readonly ConsoleRoute[] = [
    ...usageAreas({ ...deps, readCounters, readHealth }, analytics),
    ...managementAreas({ ...deps, readCounters, readHealth }, analytics),
    ...playgroundArea(deps),
    ...memoryAreas({ ...deps, analytics }),
    ...signInRoutes(deps),
    ...createAccountRoutes(deps),
    ...createKeyHolderRoutes({ ...deps, analytics }),
    ...createFindRoutes({
      ...deps,
      ...{ analytics, queries: deps.database },
      pagesFor: (view) => navigation.groupsFor({ ...view, path: '' }),
    }),
  ];
  const navigation = createNavigation(routes);
  return routes;
}

function signInRoutes({ snapshot, people, audit, clock, logger }: ConsoleDeps): readonly ConsoleRoute[] {
  const oidc = () => {
    const { oidc: settings, publicUrl } = snapshot().config;
    return settings && publicUrl !== null ? { settings, publicUrl } : null;
  };
  return createSignInRoutes({ people, audit, oidc, oidcClient: createOidcClient({ clock }), logger });
}
