/** Runs apt-get as root on Debian. */
import { existsSync } from 'node:fs';
import { run } from './run.ts';

export const APT_LIMIT_MS = 10 * 60_000;

/** True if we can install packages, i.e. we are root on Debian or one of its derivatives. */
export function canInstallPackages(): boolean {
  return existsSync('/etc/debian_version') && process.getuid?.() === 0;
}

/** Runs `apt-get` without prompting. */
export async function apt(args: string[], cwd = '/'): Promise<void> {
  // Another apt may hold the lock, e.g. when a machine starts for the first time. apt has to stay root, because the
  // user `_apt` can't read our folders.
  const options = ['-o', 'DPkg::Lock::Timeout=300', '-o', 'APT::Sandbox::User=root', '--quiet'];
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await run('apt-get', [...args, ...options], { cwd, env, timeoutMs: APT_LIMIT_MS });
}
