/** Collects the pages of the console and passes them their dependencies. Contains no logic of its own. */

import type { ReadCounters } from '../ceilings/counter-usage.ts';
import type { CatalogRow } from '../config/config.ts';
import { createAccountRoutes } from '../console/account/routes.ts';
import { createFindRoutes } from '../console/find/routes.ts';
import { createNavigation } from '../console/frame/nav.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { createConsoleRouter } from '../console/frame/router.ts';
import { createWindowCounters } from '../console/frame/window-counters.ts';
import { createKeyHolderRoutes } from '../console/key-holder/routes.ts';
import { createOidcClient } from '../console/sign-in/oidc.ts';
import { createSignInRoutes } from '../console/sign-in/routes.ts';
import type { Caller } from '../core/call.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { Logger } from '../observability/logger.ts';
import type { Audit } from '../people/audit.ts';
import type { People } from '../people/people.ts';
import type { HandleCall } from '../pipeline/call/handle-call.ts';
import type { Projects } from '../projects/projects.ts';
import type { PoolState } from '../routing/pools.ts';
import type { ReadBreakers } from '../routing/shared-breakers.ts';
import { type Analytics, createAnalytics } from '../usage/analytics/analytics.ts';
import type { ActiveModels } from '../usage/prices/active-models.ts';
import type { UsageReports } from '../usage/reports.ts';
import type { StatusReport } from '../usage/status.ts';
import type { CallRecording } from './call-recording.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';
import { managementAreas } from './console-management.ts';
import { memoryAreas } from './console-memory.ts';
import { playgroundArea } from './console-playground.ts';
import { usageAreas } from './console-usage.ts';
import type { Erasures } from './erasures.ts';
import type { Learning } from './learning.ts';
import type { EraseSubject, Memory } from './memory.ts';

/** Everything that the pages may need. Each area only takes what it uses. */
export interface ConsoleDeps {
  readonly snapshot: () => ConfigSnapshot;
  readonly readCounters: ReadCounters;
  readonly people: People;
  readonly audit: Audit;
  readonly projects: Projects;
  readonly keyring: Keyring;
  readonly breakers: Breakers;
  readonly pools: PoolState;
  readonly readBreakers: ReadBreakers;
  readonly reports: UsageReports;
  readonly activeModels: ActiveModels<CatalogRow>;
  readonly memory: Memory;
  readonly learning: Learning;
  readonly erasures: Erasures;
  readonly eraseSubject: EraseSubject;
  readonly callRecording: CallRecording;
  readonly handleCall: HandleCall;
  /** Runs a query after this process has stored its calls, so that people see the calls that they have just made. */
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
  readonly database: Database;
  /** Returns the response of `GET /status/peek`. */
  readonly getStatus: (caller: Caller) => Promise<StatusReport>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export function createConsole(deps: ConsoleDeps): ReturnType<typeof createConsoleRouter> {
  const { people, audit, projects, clock, logger } = deps;
  return createConsoleRouter({
    routes: consoleRoutes(deps),
    sessions: people.sessions,
    members: people.members,
    audit,
    findProject: projects.findBySlug,
    zoneOf: ({ settings }) => settings.timeZone,
    clock,
    logger,
  });
}

/** Lists the areas in the order of the navigation. */
export function consoleRoutes(deps: ConsoleDeps): readonly ConsoleRoute[] {
  const analytics = createAnalytics(deps.database);
  const readCounters = createWindowCounters({ ...deps, analytics });
  const routes: readonly ConsoleRoute[] = [
    ...usageAreas({ ...deps, readCounters }, analytics),
    ...managementAreas({ ...deps, readCounters }, analytics),
    ...playgroundArea(deps),
    ...memoryAreas(deps),
    ...signInRoutes(deps),
    ...createAccountRoutes({ people: deps.people, publicUrl: () => deps.snapshot().config.publicUrl }),
    ...keyHolderRoutes(deps, analytics),
    ...createFindRoutes({
      readStored: deps.readStored,
      findCalls: analytics.find,
      listKeys: deps.keyring.list,
      projectsOf: deps.people.members.projectsOf,
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

function keyHolderRoutes({ people, keyring, projects, getStatus, readStored }: ConsoleDeps, analytics: Analytics): readonly ConsoleRoute[] {
  return createKeyHolderRoutes({
    ...{ keyring, getStatus, analytics, readStored, attempts: people.attempts, findProject: projects.get },
  });
}
