/**
 * Builds the file tree of the image without a container engine. We follow the stages of the Dockerfile and apply its
 * FROM, WORKDIR, COPY and `RUN ln -s` instructions in a folder. The packages and Node come from this machine's
 * checkout.
 */
import { cpSync } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { readDockerfile } from './dockerfile.ts';
import { root, shareCompileCache } from './gateway-process.ts';

/** What documented commands may use besides `node` and `gateway`. It's all part of node:*-bookworm-slim. */
const programs = ['sh', 'env', 'tar', 'df', 'du', 'ls', 'cat', 'mkdir', 'mv', 'rm', 'basename'];

export interface ImageTree {
  /** The WORKDIR of the last stage, as a path inside the folder. */
  readonly workdir: string;
  /** The value of PATH in the image. */
  readonly path: string;
  /** The environment variables with which processes use code that earlier trees have compiled. */
  readonly compileCache: Readonly<Record<string, string>>;
}

/** Builds the tree of the last stage in `folder`. */
export async function buildImageTree(folder: string): Promise<ImageTree> {
  const stages = new Map<string, string>();
  let stage = '';
  let workdir = '/';
  const inStage = (path: string): string => join(stage, resolve(workdir, path));
  for (const instruction of readDockerfile().instructions) {
    const [name, ...words] = instruction.split(' ');
    if (name === 'FROM') {
      stage = join(folder, `stage-${stages.size}`);
      stages.set(words[2] ?? 'last', stage);
      workdir = '/';
      await prepareBase(stage);
    } else if (name === 'WORKDIR') {
      workdir = resolve(workdir, words[0] ?? '');
      await mkdir(inStage('.'), { recursive: true });
    } else if (name === 'COPY') {
      const from = words[0]?.startsWith('--from=') ? stages.get(words.shift()?.slice('--from='.length) ?? '') : root;
      if (from === undefined) throw new Error(`no such stage: ${instruction}`);
      const target = words.pop() ?? '';
      for (const source of words) {
        const file = target.endsWith('/') && !source.startsWith('/') ? join(target, source) : target;
        cpSync(join(from, source), inStage(file), { recursive: true, verbatimSymlinks: true });
      }
    } else if (instruction.startsWith('RUN npm ci ')) {
      await symlink(join(root, 'node_modules'), inStage('node_modules'));
    } else if (instruction.startsWith('RUN ln -s ')) {
      const [target = '', path = ''] = words.slice(2);
      await symlink(target, inStage(path));
    }
  }
  return {
    workdir: inStage('.'),
    path: [join(stage, 'usr/local/bin'), join(stage, 'usr/bin')].join(':'),
    compileCache: await shareCompileCache(folder, 'image'),
  };
}

async function prepareBase(stage: string): Promise<void> {
  for (const path of ['usr/local/bin', 'usr/bin']) await mkdir(join(stage, path), { recursive: true });
  await symlink(process.execPath, join(stage, 'usr/local/bin/node'));
  for (const name of programs) await symlink(join('/bin', name), join(stage, 'usr/bin', name));
}
