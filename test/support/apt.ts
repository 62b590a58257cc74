/** Runs apt-get as root on Debian. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { run } from './run.ts';

export const APT_LIMIT_MS = 10 * 60_000;
const lockRetryMs = 500;

/** True if we can install packages, i.e. we are root on Debian or one of its derivatives. */
export function canInstallPackages(): boolean {
  return existsSync('/etc/debian_version') && process.getuid?.() === 0;
}

/**
 * Runs `apt-get` without prompting.
 *
 * If two test files install something at the same time, their calls take turns, because an `apt-get update` fails if
 * another one is running. We also wait for programs that aren't tests, e.g. when a machine starts for the first time.
 * `DPkg::Lock::Timeout` does this for packages, but not for lists of packages.
 */
export async function apt(args: string[], cwd = '/'): Promise<void> {
  // apt has to stay root, because the user `_apt` can't read our folders.
  const options = ['-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Retries=3', '-o', 'APT::Sandbox::User=root', '--quiet'];
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const work = async (): Promise<void> => {
    for (const giveUpAt = performance.now() + APT_LIMIT_MS; ; await sleep(lockRetryMs)) {
      try {
        await run('apt-get', [...args, ...options], { cwd, env, timeoutMs: APT_LIMIT_MS });
        return;
      } catch (error) {
        if (!String(error).includes('Could not get lock') || performance.now() > giveUpAt) throw error;
      }
    }
  };
  await withFileLock(join(cacheDirectory(), 'locks', 'apt.lock'), { onWait: () => undefined, work });
}
