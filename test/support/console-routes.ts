import { consoleRoutes } from '../../src/app/console.ts';
import type { ConsoleDeps } from '../../src/app/console-deps.ts';
import type { ConsoleRoute } from '../../src/console/frame/route.ts';

/** The routes of the console. Their dependencies don't work, so you can only read paths, methods and access. */
export const registeredRoutes: readonly ConsoleRoute[] = (() => {
  const anything: never = new Proxy(() => undefined, { get: () => anything, apply: () => anything }) as never;
  // Set each dependency by name, because the areas get copies of this object.
  const deps: ConsoleDeps = {
    snapshot: anything,
    readCounters: anything,
    people: anything,
    audit: anything,
    projects: anything,
    keyring: anything,
    breakers: anything,
    pools: anything,
    readBreakers: anything,
    reports: anything,
    activeModels: anything,
    memory: anything,
    learning: anything,
    erasures: anything,
    eraseSubject: anything,
    callRecording: anything,
    handleCall: anything,
    readStored: anything,
    database: anything,
    getStatus: anything,
    clock: anything,
    logger: anything,
  };
  return consoleRoutes(deps);
})();
