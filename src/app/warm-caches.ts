/**
 * Preloads what calls need from the database for each key, i.e. the key with its ceilings, its project, and the
 * project's memory settings. We do this for all keys that any process has used recently. If PostgreSQL becomes
 * unavailable, every API process can then serve these keys, and not only the ones that it has seen itself.
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
import { hourMs } from '../core/time.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { MemorySettingsStore } from '../memory/records/settings.ts';
import type { Projects } from '../projects/projects.ts';
import { listRecentKeys } from '../usage/recent-keys.ts';
import type { AppBase } from './base.ts';

interface WarmCachesDeps extends Pick<AppBase, 'database' | 'clock' | 'logger'> {
  readonly keyring: Pick<Keyring, 'warm' | 'listNewest'>;
  readonly projects: Pick<Projects, 'warm'>;
  readonly memorySettings: Pick<MemorySettingsStore, 'warm'>;
}

/** A quarter of the caches' capacity, so that warming doesn't evict keys that are in use. */
const maxKeys = 5_000;
const intervalMs = 15_000;

export function createCacheWarmer({ database, keyring, projects, memorySettings, clock, logger }: WarmCachesDeps) {
  return createBackgroundLoop({
    async run() {
      const recent = await listRecentKeys(database, { since: new Date(clock.now() - hourMs), limit: maxKeys });
      // If few keys have been used recently, add the newest ones.
      const newest = await keyring.listNewest(maxKeys - recent.length);
      const keys = [...recent, ...newest];
      const projectIds = [...new Set(keys.map(({ projectId }) => projectId))];
      await projects.warm(projectIds);
      await memorySettings.warm(projectIds);
      await keyring.warm([...new Set(keys.map(({ prefix }) => prefix))]);
      return 'idle';
    },
    intervalMs,
    onFirstFailure: (err) => logger.warn({ err }, 'failed to load keys into memory; retrying'),
  });
}
