/** Finds Python for clients that are written in it. If it's missing, we install Debian's package as root on Debian. */
import { join } from 'node:path';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { apt, canInstallPackages } from './apt.ts';
import { run } from './run.ts';

/**
 * Returns the name of a Python 3 that can create virtual environments. If it's missing, it gets installed first. If
 * that fails, throws an error with the reason.
 */
export async function ensurePython(): Promise<string> {
  if (await canCreateEnvironments()) return 'python3';
  if (!canInstallPackages()) throw new Error('no Python, put a python3 with venv and pip on the PATH');
  await withFileLock(join(cacheDirectory(), 'locks', 'python.lock'), {
    onWait: () => process.stderr.write('tests: waiting for another run that installs Python\n'),
    async work() {
      if (await canCreateEnvironments()) return;
      process.stderr.write("tests: installing Python: Debian's package\n");
      await apt(['update']);
      await apt(['install', '--yes', '--no-install-recommends', 'python3', 'python3-venv']);
    },
  });
  return 'python3';
}

/** Debian has `ensurepip` in a separate package, so it may be missing. */
async function canCreateEnvironments(): Promise<boolean> {
  return run('python3', ['-c', 'import venv, ensurepip']).then(
    () => true,
    () => false,
  );
}
