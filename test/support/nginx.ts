/**
 * Runs nginx in front of a gateway. If it isn't installed, we download the program from Debian's package into the cache
 * directory, as root on Debian.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { apt, canInstallPackages } from './apt.ts';
import { foldersOnPath } from './on-path.ts';
import { run } from './run.ts';
import { until } from './until.ts';
import { unusedPort } from './unused-port.ts';

export interface Nginx {
  /** Uses HTTP/1.1 for both the client and the gateway. */
  readonly url: string;
  /** Uses HTTP/1.1 for the client and HTTP/1.0 for the gateway, which is nginx's default. */
  readonly defaultUrl: string;
  /** Uses HTTP/2 without TLS for the client and HTTP/1.1 for the gateway. */
  readonly http2Url: string;
  stop(): Promise<void>;
}

/** Returns the path of the program. Throws if it's missing and can't be installed. */
export async function ensureNginx(): Promise<string> {
  const unpacked = join(cacheDirectory(), 'nginx');
  const find = (): string | undefined =>
    [...foldersOnPath(), '/usr/sbin', join(unpacked, 'usr/sbin')].map((folder) => join(folder, 'nginx')).find(existsSync);
  const found = find();
  if (found !== undefined) return found;
  if (!canInstallPackages()) throw new Error('no nginx here, and it is downloaded automatically only on Debian as root');
  return withFileLock(join(cacheDirectory(), 'locks', 'nginx.lock'), {
    onWait: () => process.stderr.write('tests: waiting for another run that downloads nginx\n'),
    async work() {
      if (find() === undefined) await unpack(unpacked);
      const downloaded = find();
      if (downloaded === undefined) throw new Error('Debian\'s package "nginx" was unpacked, but the program was not found');
      return downloaded;
    },
  });
}

/** Unpacks the package, because installing it would start a service on port 80. */
async function unpack(folder: string): Promise<void> {
  await mkdir(cacheDirectory(), { recursive: true });
  const temporary = await mkdtemp(join(cacheDirectory(), 'nginx-'));
  try {
    await apt(['update']);
    await apt(['download', 'nginx'], temporary);
    const [file = ''] = await readdir(temporary);
    await run('dpkg-deb', ['--extract', join(temporary, file), join(temporary, 'unpacked')]);
    await rename(join(temporary, 'unpacked'), folder);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

/** Starts nginx in front of `gateway`. All files that it needs are in `folder`. */
export async function startNginx(program: string, folder: string, gateway: string): Promise<Nginx> {
  const [port, defaultPort, http2Port] = [await unusedPort(), await unusedPort(), await unusedPort()];
  const server = (listen: string, version: string): string => `
  server {
    listen 127.0.0.1:${listen};
    location / {
      proxy_pass ${gateway};
      ${version}
    }
  }`;
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `  ${name}_temp_path ${folder};`);
  const http11 = 'proxy_http_version 1.1; proxy_set_header Connection "";';
  const servers = [server(`${port}`, http11), server(`${defaultPort}`, ''), server(`${http2Port} http2`, http11)];
  const file = join(folder, 'nginx.conf');
  await writeFile(
    file,
    `daemon off;
master_process off;
pid ${join(folder, 'nginx.pid')};
error_log stderr;
events {}
http {
  access_log off;
${temporary.join('\n')}
${servers.join('')}
}
`,
  );
  const child = spawn(program, ['-p', folder, '-c', file, '-e', 'stderr'], { cwd: folder, env: {}, stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk;
  });
  const exited = once(child, 'exit');
  const url = `http://127.0.0.1:${port}`;
  await until('nginx listens', async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended: ${output}`);
    return fetch(url).then(
      () => true,
      () => false,
    );
  });
  return {
    url,
    defaultUrl: `http://127.0.0.1:${defaultPort}`,
    http2Url: `http://127.0.0.1:${http2Port}`,
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}
