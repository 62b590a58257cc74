/** Runs apt-get as root on Debian. */
import { existsSync } from 'node:fs';
import { run } from './run.ts';

export const APT_LIMIT_MS = 10 * 60_000;

/** Whether packages can be installed: Debian or a derivative, as root. */
export function canInstallPackages(): boolean {
  return existsSync('/etc/debian_version') && process.getuid?.() === 0;
}

/** Runs `apt-get` without questions. */
export async function apt(args: string[], cwd = '/'): Promise<void> {
  // The lock: another apt may run, at a machine's first start for example. The user: folders of ours are not open to `_apt`.
  const options = ['-o', 'DPkg::Lock::Timeout=300', '-o', 'APT::Sandbox::User=root', '--quiet'];
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await run('apt-get', [...args, ...options], { cwd, env, timeoutMs: APT_LIMIT_MS });
}
