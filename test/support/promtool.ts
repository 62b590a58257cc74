/**
 * promtool, which checks and tests rules of Prometheus: what is on the PATH or in the cache directory, else on Debian, as root, the program of
 * Debian's package `prometheus`. The package is unpacked, not installed: it would start a server.
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
export async function ensurePromtool(): Promise<string | null> {
  const found = findPromtool();
  if (found !== null || !canInstallPackages()) return found;
  return withFileLock(join(cacheDirectory(), 'locks', 'promtool.lock'), {
    onWait: () => undefined,
    work: async () => findPromtool() ?? (await unpackPackage()),
  });
}

const installed = (): string => join(cacheDirectory(), 'promtool', 'promtool');

function findPromtool(): string | null {
  return [...foldersOnPath().map((folder) => join(folder, 'promtool')), installed()].find((program) => existsSync(program)) ?? null;
}

async function unpackPackage(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'promtool-'));
  try {
    await apt(['update']);
    await apt(['download', 'prometheus'], folder);
    const [file = ''] = (await readdir(folder)).filter((name) => name.endsWith('.deb'));
    await run('dpkg-deb', ['--extract', join(folder, file), folder]);
    await mkdir(join(cacheDirectory(), 'promtool'), { recursive: true });
    await cp(join(folder, 'usr', 'bin', 'promtool'), `${installed()}.new`);
    // Renamed at once, so that nobody starts half of it.
    await rename(`${installed()}.new`, installed());
    return installed();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
