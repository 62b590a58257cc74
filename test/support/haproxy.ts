/**
 * Runs HAProxy with the configuration from docker-compose.yml. If it isn't installed, we install Debian's package as
 * root on Debian.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { apt, canInstallPackages } from './apt.ts';
import { root } from './gateway-process.ts';
import { foldersOnPath } from './on-path.ts';
import { until } from './until.ts';
import { unusedPort } from './unused-port.ts';

export interface Haproxy {
  readonly url: string;
  /** The URL for HTTP/2 without TLS. */
  readonly http2Url: string;
  /** Returns the log output so far. */
  output(): string;
  /** Stops HAProxy like Compose does, so that open connections can finish. Resolves with the exit status. */
  stop(): Promise<number | null>;
}

/** Returns the path of the program. Throws if it's missing and can't be installed. */
export async function ensureHaproxy(): Promise<string> {
  const find = (): string | undefined =>
    [...foldersOnPath(), '/usr/sbin', '/usr/local/sbin'].map((folder) => join(folder, 'haproxy')).find(existsSync);
  const found = find();
  if (found !== undefined) return found;
  if (!canInstallPackages()) throw new Error('no haproxy here, and it is installed automatically only on Debian as root');
  return withFileLock(join(cacheDirectory(), 'locks', 'haproxy.lock'), {
    onWait: () => process.stderr.write('tests: waiting for another run that installs HAProxy\n'),
    async work() {
      if (find() === undefined) {
        await apt(['update']);
        await apt(['install', '--yes', '--no-install-recommends', 'haproxy']);
      }
      const installed = find();
      if (installed === undefined) throw new Error('Debian\'s package "haproxy" was installed, but the program was not found');
      return installed;
    },
  });
}

export interface HaproxyOptions {
  readonly folder: string;
  readonly replicas: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Starts HAProxy in front of these replicas. We write its configuration to `folder` with different addresses and an
 * additional one for HTTP/2.
 */
export async function startHaproxy(program: string, { folder, replicas, env }: HaproxyOptions): Promise<Haproxy> {
  const [port, http2Port] = [await unusedPort(), await unusedPort()];
  let text = await readFile(join(root, 'deploy/haproxy/haproxy.cfg'), 'utf8');
  text = text
    .replace('bind :8080', `bind 127.0.0.1:${port}\n  bind 127.0.0.1:${http2Port} proto h2`)
    .replace('bind :9465', `bind 127.0.0.1:${await unusedPort()}`);
  for (const [name, host] of Object.entries(replicas)) text = text.replaceAll(` ${name}:8080`, ` ${host}`);
  const file = join(folder, 'haproxy.cfg');
  await writeFile(file, text);
  const child = spawn(program, ['-W', '-db', '-f', file], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk;
    });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const url = `http://127.0.0.1:${port}`;
  const isListening = (): Promise<boolean> =>
    fetch(url).then(
      () => true,
      () => false,
    );
  await until('HAProxy listens', async () => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${output}`);
    return isListening();
  });
  return {
    url,
    http2Url: `http://127.0.0.1:${http2Port}`,
    output: () => output,
    async stop() {
      // the image's STOPSIGNAL
      child.kill('SIGUSR1');
      const [code] = await exited;
      return code;
    },
  };
}
