/** Finds Python for the clients that are written in it, or installs Debian's package as root on Debian. */
import { join } from 'node:path';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { apt, canInstallPackages } from './apt.ts';
import { run } from './run.ts';

/**
 * Returns the name of a Python 3 that can create virtual environments, and installs it if it is missing. Throws with
 * the reason if it cannot be installed.
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

/** Debian splits `ensurepip` off into a separate package. */
async function canCreateEnvironments(): Promise<boolean> {
  return run('python3', ['-c', 'import venv, ensurepip']).then(
    () => true,
    () => false,
  );
}
