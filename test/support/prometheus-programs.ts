/**
 * Finds Prometheus and promtool, which tests its rules. We look on the PATH and in the cache directory. If they're
 * missing, we download Debian's package `prometheus` as root on Debian. It's unpacked instead of installed, because
 * installing it would start a server.
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

/** Returns the path of the program. If it's missing, it gets installed first. Null if that fails. */
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
    // Rename the file at the end, so that nobody starts an incomplete program.
    await rename(`${installed(name)}.new`, installed(name));
    return installed(name);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
