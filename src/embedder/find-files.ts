/** Looks for the local embedder's files, first in the operator's folder and then in the cache. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { localModel } from '../core/local-model.ts';
import { type ModelFile, runtimeFolder, runtimeSha256, tokenizer, weights } from './pinned-files.ts';

/** The paths of the files that the embedder's process loads. */
export interface EmbedderFiles {
  readonly weights: string;
  readonly tokenizer: string;
  /** The folder whose `node_modules` contains the runtime. */
  readonly runtime: string;
}

/** A path is null if none of the folders contains the file. */
export type FoundFiles = { readonly [File in keyof EmbedderFiles]: string | null };

/** Checks the hash of every file, so that we treat a damaged file as missing and fetch it again. Takes 0.2 s. */
export async function findFiles(folders: readonly string[]): Promise<FoundFiles> {
  const [weightsPath, tokenizerPath, runtime] = await Promise.all([
    findModelFile(folders, weights),
    findModelFile(folders, tokenizer),
    findRuntime(folders),
  ]);
  return { weights: weightsPath, tokenizer: tokenizerPath, runtime };
}

/** Returns null if a file is missing. */
export function toComplete({ weights: weightsPath, tokenizer: tokenizerPath, runtime }: FoundFiles): EmbedderFiles | null {
  if (weightsPath === null || tokenizerPath === null || runtime === null) return null;
  return { weights: weightsPath, tokenizer: tokenizerPath, runtime };
}

async function findModelFile(folders: readonly string[], file: ModelFile): Promise<string | null> {
  for (const folder of folders) {
    for (const path of [join(folder, localModel, file.name), join(folder, file.name)]) if (await isPinned(path, file)) return path;
  }
  return null;
}

/** Reports whether the path is a file with this size and hash. */
export async function isPinned(path: string, { bytes, sha256 }: ModelFile): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  // Treat a file that we can't read as damaged.
  return found?.isFile() === true && found.size === bytes && (await hashFile(path, 'sha256', 'hex').catch(() => null)) === sha256;
}

export async function hashFile(path: string, algorithm: 'sha256' | 'sha512', encoding: 'hex' | 'base64'): Promise<string> {
  const hash = createHash(algorithm);
  await pipeline(createReadStream(path), hash);
  return hash.digest(encoding);
}

async function findRuntime(folders: readonly string[]): Promise<string | null> {
  for (const folder of folders) {
    const runtime = join(folder, runtimeFolder);
    if (runtimeSha256 !== undefined && (await hashFolder(runtime).catch(() => null)) === runtimeSha256) return runtime;
  }
  return null;
}

/**
 * Hashes the sorted paths and hashes of the files in a folder. Ignores hidden files, because operating systems add
 * some.
 */
async function hashFolder(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.name.startsWith('.'));
  const hash = createHash('sha256');
  for (const path of files.map(({ parentPath, name }) => join(parentPath, name)).sort())
    hash.update(`${relative(folder, path)} ${await hashFile(path, 'sha256', 'hex')}\n`);
  return hash.digest('hex');
}
