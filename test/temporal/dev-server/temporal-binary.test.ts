import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { errorSummary } from '../../../src/core/error-messages.ts';
import { resolveTemporalBinary } from '../../../src/temporal/dev-server/temporal-binary.ts';
import { startLocalServer } from '../../support/local-server.ts';
import { createTestLog, type LogLine } from '../../support/temporal.ts';

const run = promisify(execFile);

interface Machine {
  readonly home: string;
  readonly path: string;
  readonly cacheDir: string;
  /** Creates a program that reports this version of temporal. */
  put(file: string, version: string): Promise<string>;
  find(signal?: AbortSignal): Promise<string>;
  readonly lines: readonly LogLine[];
}

/** A machine with an empty PATH and cache and a local download server that responds with 403 by default. */
async function withMachine(
  work: (machine: Machine) => Promise<void>,
  respond: RequestListener = (_request, response) => response.writeHead(403).end(),
): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), 'gateway-find-'));
  const server = await startLocalServer(respond);
  const { logger, lines } = createTestLog();
  const [path, cacheDir] = [join(home, 'bin'), join(home, 'cache')];
  const environment = {
    path: `${path}:/usr/bin:/bin`,
    cacheDir,
    variables: { HOME: home, OPENAI_API_KEY: 'planted' },
    downloadOrigin: server.url,
  };
  try {
    await work({
      home,
      path,
      cacheDir,
      put: async (file, version) => {
        await writeProgram(file, `echo "temporal version ${version}"`);
        return file;
      },
      find: (signal) => resolveTemporalBinary({ environment, logger, ...(signal && { signal }) }),
      lines,
    });
  } finally {
    await server.close();
    await rm(home, { recursive: true, force: true });
  }
}

/** Returns the source and error message of each failed install. */
function failedInstalls(lines: readonly LogLine[]): unknown[] {
  return lines
    .filter(({ message }) => message === 'Temporal installation failed')
    .map(({ fields }) => [fields['source'], errorSummary(fields['err'])]);
}

async function writeProgram(file: string, script: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
}

/**
 * Returns the script of a Go toolchain that installs a program immediately and records its arguments and environment.
 */
function fakeGo(home: string): string {
  return `env > ${home}/go-env; echo "$@" > ${home}/go-args; printf '#!/bin/sh\\necho temporal version 0.0.0-DEV\\n' > "$GOBIN/temporal"; chmod +x "$GOBIN/temporal"`;
}

describe('the Temporal binary', () => {
  test('prefers the Temporal binary on the PATH over the cache', () =>
    withMachine(async ({ path, cacheDir, put, find }) => {
      const program = await put(join(path, 'temporal'), '1.0.0');
      await put(join(cacheDir, 'temporal-1.5.1', 'temporal'), '1.5.1');
      expect(await find()).toBe(program);
    }));

  test('uses the newest working Temporal binary in the cache', () =>
    withMachine(async ({ path, cacheDir, put, find }) => {
      await writeProgram(join(path, 'temporal'), 'echo "another program of that name"');
      await put(join(cacheDir, 'temporal-1.5.1', 'temporal'), '1.5.1');
      const newest = await put(join(cacheDir, 'temporal-1.10.0', 'temporal'), '1.10.0');
      await writeProgram(join(cacheDir, 'temporal-1.11.0', 'temporal'), 'exit 1');
      expect(await find()).toBe(newest);
    }));

  test('downloads the Temporal binary if the cache is empty', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'gateway-archive-'));
    await writeProgram(join(folder, 'temporal'), 'echo "temporal version 1.6.0 (Server 1.30.0, UI 2.44.0)"');
    await run('tar', ['-czf', join(folder, 'archive.tar.gz'), '-C', folder, 'temporal']);
    const archive = await readFile(join(folder, 'archive.tar.gz'));
    const requests: string[] = [];
    await withMachine(
      async ({ cacheDir, find, lines }) => {
        expect(await find()).toBe(join(cacheDir, 'temporal-1.6.0', 'temporal'));
        expect(await readdir(join(cacheDir, 'temporal-1.6.0'))).toEqual(['temporal']);
        expect(await find()).toBe(join(cacheDir, 'temporal-1.6.0', 'temporal'));
        expect(lines).toContainEqual(
          expect.objectContaining({
            message: 'installed Temporal',
            fields: expect.objectContaining({ source: 'official download', version: '1.6.0' }),
          }),
        );
      },
      (request, response) => {
        requests.push(request.url ?? '');
        if (requests.length === 1) response.writeHead(302, { location: '/archive' }).end();
        else response.end(archive);
      },
    );
    expect(requests).toEqual([expect.stringMatching(/^\/cli\/archive\/latest\?platform=(linux|darwin)&arch=(amd64|arm64)$/), '/archive']);
    await rm(folder, { recursive: true });
  });

  test('runs go install without vendor keys if the download fails', () =>
    withMachine(async ({ home, path, cacheDir, find, lines }) => {
      await writeProgram(join(path, 'go'), fakeGo(home));
      expect(await find()).toBe(join(cacheDir, 'temporal-1.5.1', 'temporal'));
      expect(await readFile(join(home, 'go-args'), 'utf8')).toMatch(
        /^install .*-dwarf=false .*github\.com\/temporalio\/cli\/cmd\/temporal@v1\.5\.1\n$/,
      );
      expect(await readFile(join(home, 'go-env'), 'utf8')).not.toContain('planted');
      expect(failedInstalls(lines)).toEqual([['official download', 'the server responded with status 403']]);
    }));

  test('installs the Temporal binary once for two concurrent starts', () =>
    withMachine(async ({ home, path, find }) => {
      await writeProgram(join(path, 'go'), `echo built >> ${home}/builds; sleep 0.5; ${fakeGo(home)}`);
      const [first, second] = await Promise.all([find(), find()]);
      expect(first).toBe(second);
      expect(await readFile(join(home, 'builds'), 'utf8')).toBe('built\n');
    }));

  test('removes the files of an installation that fails halfway', () =>
    withMachine(async ({ path, cacheDir, find, lines }) => {
      await writeProgram(join(path, 'go'), 'echo "go: no network" >&2; exit 1');
      await expect(find()).rejects.toThrow(
        /official download: the server responded with status 403; go install: go exited with 1: go: no network/,
      );
      expect(failedInstalls(lines)).toEqual([
        ['official download', 'the server responded with status 403'],
        ['go install', 'go exited with 1: go: no network'],
      ]);
      expect(await readdir(cacheDir)).toEqual(['temporal.lock']);
    }));

  test('stops the build and its child processes when it aborts an installation', () =>
    withMachine(async ({ home, path, cacheDir, find }) => {
      await writeProgram(join(path, 'go'), `sleep 60 & echo $! > ${home}/compiler; echo started > ${home}/started; wait`);
      const stopping = new AbortController();
      const finding = find(stopping.signal);
      const readStarted = (): Promise<string> =>
        readFile(join(home, 'started'), 'utf8').catch(() => new Promise((resolve) => setTimeout(resolve, 20)).then(readStarted));
      await readStarted();
      stopping.abort();
      await expect(finding).rejects.toMatchObject({ name: 'AbortError' });
      const compiler = Number(await readFile(join(home, 'compiler'), 'utf8'));
      const state = await readFile(`/proc/${compiler}/stat`, 'utf8').catch(() => 'gone');
      expect(state).toMatch(/^gone$|\) Z /);
      expect(await readdir(cacheDir)).toEqual(['temporal.lock']);
    }));
});
