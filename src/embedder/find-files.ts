/** Finds the local embedder's files in folders: the operator's, then the cache. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { localModel } from '../core/local-model.ts';
import { type ModelFile, runtimeFolder, tokenizer, weights } from './pinned-files.ts';

/** Paths of what the process of the embedder loads. */
export interface EmbedderFiles {
  readonly weights: string;
  readonly tokenizer: string;
  /** The folder whose `node_modules` contains the runtime. */
  readonly runtime: string;
}

/** Each is null when none of the folders contains it. */
export type FoundFiles = { readonly [File in keyof EmbedderFiles]: string | null };

/** Checks size and hash of model files; the runtime was checked when it was unpacked. */
export async function findFiles(folders: readonly string[]): Promise<FoundFiles> {
  const [weightsPath, tokenizerPath, runtime] = await Promise.all([
    findModelFile(folders, weights),
    findModelFile(folders, tokenizer),
    findRuntime(folders),
  ]);
  return { weights: weightsPath, tokenizer: tokenizerPath, runtime };
}

/** Null while one is missing. */
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

/** Whether the path is a file of this size and hash. */
export async function isPinned(path: string, { bytes, sha256 }: ModelFile): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  return found?.isFile() === true && found.size === bytes && (await hashFile(path, 'sha256', 'hex')) === sha256;
}

export async function hashFile(path: string, algorithm: 'sha256' | 'sha512', encoding: 'hex' | 'base64'): Promise<string> {
  const hash = createHash(algorithm);
  await pipeline(createReadStream(path), hash);
  return hash.digest(encoding);
}

async function findRuntime(folders: readonly string[]): Promise<string | null> {
  for (const folder of folders) {
    const runtime = join(folder, runtimeFolder);
    const isThere = await access(join(runtime, 'node_modules', 'onnxruntime-node', 'package.json')).then(
      () => true,
      () => false,
    );
    if (isThere) return runtime;
  }
  return null;
}
