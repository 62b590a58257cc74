/**
 * Prometheus, and promtool, which tests its rules: what is on the PATH or in the cache directory, else on Debian, as root, the programs of
 * Debian's package `prometheus`. We unpack the package instead of installing it, because that would start a server.
 */
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { apt, canInstallPackages } from './apt.ts';
import { foldersOnPath } from './on-path.ts';
import { run } from './run.ts';

/** Path of the program; installs it if it is missing. Null where it cannot be installed. */
export async function ensurePrometheusProgram(name: 'prometheus' | 'promtool'): Promise<string | null> {
  const found = findProgram(name);
  if (found !== null || !canInstallPackages()) return found;
  return withFileLock(join(cacheDirectory(), 'locks', 'promtool.lock'), {
    onWait: () => undefined,
    work: async () => findProgram(name) ?? (await unpackPackage(name)),
  });
}

const installed = (name: string): string => join(cacheDirectory(), 'promtool', name);

function findProgram(name: string): string | null {
  return [...foldersOnPath().map((folder) => join(folder, name)), installed(name)].find((program) => existsSync(program)) ?? null;
}

async function unpackPackage(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'prometheus-'));
  try {
    await apt(['update']);
    await apt(['download', 'prometheus'], folder);
    const [file = ''] = (await readdir(folder)).filter((entry) => entry.endsWith('.deb'));
    await run('dpkg-deb', ['--extract', join(folder, file), folder]);
    await mkdir(join(cacheDirectory(), 'promtool'), { recursive: true });
    await cp(join(folder, 'usr', 'bin', name), `${installed(name)}.new`);
    // Renamed at once, so that nobody starts half of it.
    await rename(`${installed(name)}.new`, installed(name));
    return installed(name);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
