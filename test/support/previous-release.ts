/** Provides the source code of the previous release, which tests run next to the current one. */
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root, shareCompileCache, shortLived } from './gateway-process.ts';
import { run } from './run.ts';

/** Update this in every release (see Releases in CONTRIBUTING.md). */
export const previousRelease = { version: '0.1.0', commit: '866d6ad077c09380f56ef4123113fec7c1572879' };

export interface ReleaseSource {
  readonly folder: string;
  /** Returns the arguments to run `gateway <command>` of the previous release. */
  program(command: string): string[];
  /** The environment variables with which processes use code that earlier processes of this release have compiled. */
  readonly env: Readonly<Record<string, string>>;
  remove(): Promise<void>;
}

/**
 * Extracts the release into a temporary folder and links the packages of this checkout. The caller has to remove the
 * folder.
 */
export async function extractPreviousRelease(): Promise<ReleaseSource> {
  await requireSamePackages();
  const folder = await mkdtemp(join(tmpdir(), 'gateway-release-'));
  const archive = join(folder, 'release.tar');
  await runGit(['archive', '--output', archive, previousRelease.commit, 'src', 'workflows', 'activities', 'package.json']);
  await run('tar', ['--extract', '--file', archive, '--directory', folder]);
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  return {
    folder,
    program: (command) => [process.execPath, ...shortLived, join(folder, 'src', 'main.ts'), command],
    env: await shareCompileCache(folder, 'release'),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Returns the text of a file in the release. */
export function readPreviousRelease(path: string): Promise<string> {
  return runGit(['show', `${previousRelease.commit}:${path}`]);
}

/** Runs git. If the clone is shallow, we fetch the commit first. */
async function runGit(args: readonly string[]): Promise<string> {
  const { version, commit } = previousRelease;
  const hasCommit = (): Promise<boolean> =>
    run('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root }).then(
      () => true,
      () => false,
    );
  if (!(await hasCommit())) {
    await run('git', ['fetch', '--quiet', '--depth=1', 'origin', commit], { cwd: root }).catch((cause: unknown) => {
      throw new Error(`this clone lacks the commit ${commit} of release ${version}, and cannot fetch it: run git fetch --unshallow`, {
        cause,
      });
    });
  }
  return run('git', [...args], { cwd: root });
}

type Lock = {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly dependencies?: Readonly<Record<string, string>> }>>;
};

/**
 * Throws if the release had a different major version of a package, because then we wouldn't be testing the program
 * that was released.
 */
async function requireSamePackages(): Promise<void> {
  const [before, now] = (
    await Promise.all([readPreviousRelease('package-lock.json'), readFile(join(root, 'package-lock.json'), 'utf8')])
  ).map((text) => JSON.parse(text) as Lock);
  const majorOf = (lock: Lock | undefined, name: string): string | undefined =>
    /^(?:0\.\d+|[1-9]\d*)/.exec(lock?.packages[`node_modules/${name}`]?.version ?? '')?.[0];
  const names = Object.keys(before?.packages['']?.dependencies ?? {});
  const changed = names.filter((name) => majorOf(before, name) !== majorOf(now, name));
  if (changed.length > 0) {
    throw new Error(
      `release ${previousRelease.version} needs other packages than this clone has: ${changed.join(', ')}; install them for it`,
    );
  }
}
