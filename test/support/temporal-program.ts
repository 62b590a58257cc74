/** The Temporal program for the tests: found, or fetched, as `npm start` does it. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { TemporalEnvironment } from '../../src/jobs/dev-server/install-temporal.ts';
import { resolveTemporalBinary } from '../../src/jobs/dev-server/temporal-binary.ts';

/** What `npm start` would hand to the search for the program. */
export function temporalEnvironment(): TemporalEnvironment {
  const cacheHome = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return { path: process.env.PATH ?? '', cacheDir: join(cacheHome, 'model-gateway'), variables: process.env };
}

/** Makes sure that the program is there, and says on the console what it does when that takes long. */
export async function ensureTemporal(): Promise<string> {
  const say = (_fields: object, message: string): void => void process.stderr.write(`tests: ${message}\n`);
  return resolveTemporalBinary({ environment: temporalEnvironment(), logger: { debug: () => {}, info: say, warn: say, error: say } });
}
