/** Looks for the local embedder's files, first in the operator's folder and then in the cache. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { LocalModel } from '../core/local-model.ts';
import type { EmbedderFiles } from './messages.ts';
import { type ModelFile, pinnedModels, runtimeFolder, runtimeSha256 } from './pinned-files.ts';

/**
 * Looks for the files in these folders and checks their hashes, which takes 0.2 s. We treat a damaged file as missing,
 * so that it's fetched again. A path is null if no folder has an intact copy of the file.
 */
export async function findFiles(models: readonly LocalModel[], folders: readonly string[]) {
  const [runtime, ...found] = await Promise.all([
    findRuntime(folders),
    ...models.map(async (name) => {
      const { weights, tokenizer } = pinnedModels[name];
      const [weightsPath, tokenizerPath] = await Promise.all([
        findModelFile(name, weights, folders),
        findModelFile(name, tokenizer, folders),
      ]);
      return { name, weights: weightsPath, tokenizer: tokenizerPath };
    }),
  ]);
  return { models: found, runtime };
}

export function toComplete({ models, runtime }: Awaited<ReturnType<typeof findFiles>>): EmbedderFiles | null {
  const complete = models.flatMap(({ name, weights, tokenizer }) =>
    weights === null || tokenizer === null ? [] : [{ name, weights, tokenizer }],
  );
  return runtime === null || complete.length < models.length ? null : { models: complete, runtime };
}

async function findModelFile(model: LocalModel, file: ModelFile, folders: readonly string[]): Promise<string | null> {
  for (const folder of folders) {
    for (const path of [join(folder, model, file.name), join(folder, file.name)]) if (await isPinned(path, file)) return path;
  }
  return null;
}

export async function isPinned(path: string, { bytes, sha256 }: ModelFile): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  // An unreadable file counts as damaged.
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

/** Hashes the sorted paths and hashes of a folder's files. Ignores hidden files, because operating systems add some. */
async function hashFolder(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.name.startsWith('.'));
  const hash = createHash('sha256');
  for (const path of files.map(({ parentPath, name }) => join(parentPath, name)).sort())
    hash.update(`${relative(folder, path)} ${await hashFile(path, 'sha256', 'hex')}\n`);
  return hash.digest('hex');
}
