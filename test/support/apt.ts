/** Runs apt-get as root on Debian. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { run } from './run.ts';

export const APT_LIMIT_MS = 10 * 60_000;
const lockRetryMs = 500;

/** Only root can install packages, and only Debian and its derivatives have apt. */
export function canInstallPackages(): boolean {
  return existsSync('/etc/debian_version') && process.getuid?.() === 0;
}

/**
 * Runs `apt-get` without prompting.
 *
 * Two test files may want to install something at the same time, and an `apt-get update` fails if another one is
 * running. So they take turns. We also wait for programs that aren't tests, e.g. on a machine that has just been
 * started. apt itself can only wait for the lock on packages (`DPkg::Lock::Timeout`), but not for the one on package
 * lists.
 */
export async function apt(args: string[], cwd = '/'): Promise<void> {
  // By default, apt gives up root and becomes the user `_apt`, who can't read our folders.
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
