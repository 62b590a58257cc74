/** Finds or installs the Temporal program for the tests, like `npm start` does. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { TemporalEnvironment } from '../../src/temporal/dev-server/install-temporal.ts';
import { resolveTemporalBinary } from '../../src/temporal/dev-server/temporal-binary.ts';

/** The environment in which `npm start` would look for the program. */
export function temporalEnvironment(): TemporalEnvironment {
  const cacheHome = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return { path: process.env.PATH ?? '', cacheDir: join(cacheHome, 'model-gateway'), variables: process.env };
}

/** Installs the program if it's missing, and prints the progress. */
export async function ensureTemporal(): Promise<string> {
  const say = (_fields: object, message: string): void => void process.stderr.write(`tests: ${message}\n`);
  return resolveTemporalBinary({ environment: temporalEnvironment(), logger: { debug: () => {}, info: say, warn: say, error: say } });
}
