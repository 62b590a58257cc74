import { consoleRoutes } from '../../src/app/console.ts';
import type { ConsoleDeps } from '../../src/app/console-deps.ts';
import type { ConsoleRoute } from '../../src/console/frame/route.ts';

/** The routes of the console. We only need their paths, methods and access, so none of their dependencies work. */
export const registeredRoutes: readonly ConsoleRoute[] = (() => {
  const anything: never = new Proxy(() => undefined, { get: () => anything, apply: () => anything }) as never;
  // The areas copy properties from this object. A proxy has none, so list them all.
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
