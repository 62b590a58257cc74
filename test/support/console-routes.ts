import { type ConsoleDeps, consoleRoutes } from '../../src/app/console.ts';
import type { ConsoleRoute } from '../../src/console/frame/route.ts';

/** The routes of the console without working dependencies. Only their paths, methods and access can be read. */
export const registeredRoutes: readonly ConsoleRoute[] = (() => {
  const anything: never = new Proxy(() => undefined, { get: () => anything, apply: () => anything }) as never;
  // We set each one by name, because the areas receive copies.
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
