/** Installs clients into the cache directory with the package managers of their languages. */
import { createHash } from 'node:crypto';
import { access, copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { root } from '../../scripts/launch.js';
import { runNpm } from '../../scripts/npm.js';
import { asObject } from '../../src/core/json/narrow.ts';
import { ensurePython } from '../support/python.ts';
import { run } from '../support/run.ts';
import { type Client, isInDependencies, type Runtime } from './clients.ts';

const limitMs = 15 * 60_000;
const drivers = join(import.meta.dirname, 'drivers');

export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Returns the version of the client's package. */
  readonly version: () => Promise<string>;
}

/**
 * Installs the client if necessary and returns how to run its driver. Throws with the reason if it cannot be installed.
 */
export async function installClient(client: Client, driverName = client.driver): Promise<Program> {
  for (const tool of tools[client.runtime]) await requireTool(tool);
  const folder = isInDependencies(client) ? root : await ensurePackages(client.runtime, client.packages);
  const driver = join(drivers, driverName);
  const version = (): Promise<string> => versionOf(client.runtime, folder, client.packages[0]);
  switch (client.runtime) {
    case 'node': {
      const args = ['--import', join(drivers, 'resolve-from.js'), join(drivers, 'driver.js'), driverName];
      return {
        command: process.execPath,
        args,
        env: { CLIENT_PACKAGES: folder, NODE_COMPILE_CACHE: join(cacheDirectory(), 'clients', 'compiled') },
        version,
      };
    }
    case 'python':
      return { command: join(folder, 'bin', 'python'), args: [driver], env: { PYTHONPYCACHEPREFIX: join(folder, 'compiled') }, version };
    case 'go':
      await copyFile(driver, join(folder, 'main.go'));
      await copyFile(join(drivers, 'driver.go'), join(folder, 'driver.go'));
      await run('go', ['build', '-mod=mod', '-o', 'driver'], { cwd: folder, timeoutMs: limitMs });
      return { command: join(folder, 'driver'), args: [], env: {}, version };
    case 'java': {
      const classes = join(folder, `classes-${client.api}`);
      const jars = join(folder, 'lib', '*');
      await run('javac', ['-cp', jars, '-d', classes, join(drivers, 'Driver.java'), driver], { timeoutMs: limitMs });
      return { command: 'java', args: ['-cp', `${classes}:${jars}`, basename(driverName, '.java')], env: {}, version };
    }
    case 'rust': {
      const name = basename(driverName, '.rs');
      const source = join(folder, 'src', 'bin', name);
      await mkdir(source, { recursive: true });
      await copyFile(driver, join(source, 'main.rs'));
      await copyFile(join(drivers, 'driver.rs'), join(source, 'driver.rs'));
      await run('cargo', ['build', '--quiet', '--bin', name], {
        ...{ cwd: folder, env: { ...process.env, CARGO_PROFILE_DEV_DEBUG: '0' }, timeoutMs: limitMs },
      });
      return { command: join(folder, 'target', 'debug', name), args: [], env: {}, version };
    }
    default:
      return client.runtime satisfies never;
  }
}

/** Returns the version of the required package in a folder of installed ones. */
export async function versionOf(runtime: Runtime, folder: string, requirement: string): Promise<string> {
  const name = nameOf(requirement);
  switch (runtime) {
    case 'node':
      return JSON.parse(await readFile(join(folder, 'node_modules', name, 'package.json'), 'utf8')).version;
    case 'python': {
      const script = `from importlib.metadata import version; print(version('${name}'))`;
      return (await run(join(folder, 'bin', 'python'), ['-c', script])).trim();
    }
    case 'go':
      return (await run('go', ['list', '-m', '-f', '{{.Version}}', name], { cwd: folder })).trim().replace(/^v/, '');
    case 'java': {
      const prefix = `${name.split(':')[1]}-`;
      const jars = (await readdir(join(folder, 'lib'))).filter((jar) => jar.startsWith(prefix) && /^\d/.test(jar.slice(prefix.length)));
      return basename(jars[0]?.slice(prefix.length) ?? '', '.jar');
    }
    case 'rust': {
      const lock = await readFile(join(folder, 'Cargo.lock'), 'utf8');
      return lock.split(`name = "${name}"\nversion = "`)[1]?.split('"')[0] ?? '';
    }
    default:
      return runtime satisfies never;
  }
}

/**
 * Returns the name of a package without its version and features, e.g. `openai==3.*`, `@openai/agents@0.20`,
 * `instructor[anthropic]`.
 */
export function nameOf(requirement: string): string {
  return requirement.replace(/(?<=.)@.*|==.*|\[.*/, '');
}

/** Returns a folder with the packages. All clients that need the same ones share it. */
export async function ensurePackages(runtime: Runtime, packages: readonly string[]): Promise<string> {
  const sorted = [...packages].sort();
  const id = createHash('sha256').update(sorted.join(' ')).digest('hex').slice(0, 8);
  const folder = join(cacheDirectory(), 'clients', `${runtime}-${nameOf(sorted[0] ?? '').replaceAll(/[^\w.-]+/g, '-')}-${id}`);
  const complete = join(folder, '.complete');
  const isComplete = (): Promise<boolean> =>
    access(complete).then(
      () => true,
      () => false,
    );
  if (await isComplete()) return folder;
  await withFileLock(join(cacheDirectory(), 'locks', `clients-${id}.lock`), {
    onWait: () => process.stderr.write(`clients: waiting for another run that installs ${packages.join(' ')}\n`),
    work: async () => {
      if (await isComplete()) return;
      process.stderr.write(`clients: installing ${packages.join(' ')}\n`);
      await rm(folder, { recursive: true, force: true });
      await mkdir(folder, { recursive: true });
      await installers[runtime](folder, packages);
      await writeFile(complete, '');
    },
  });
  return folder;
}

const installers: Readonly<Record<Runtime, (folder: string, packages: readonly string[]) => Promise<void>>> = {
  async node(folder, packages) {
    await writeFile(join(folder, 'package.json'), '{ "private": true }\n');
    await runNpm(['install', '--no-save', '--no-package-lock', ...packages], { cwd: folder, timeoutMs: limitMs });
  },
  async python(folder, packages) {
    await run(await ensurePython(), ['-m', 'venv', folder], { timeoutMs: limitMs });
    const pip = ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check'];
    await run(join(folder, 'bin', 'python'), [...pip, ...packages], { timeoutMs: limitMs });
  },
  async go(folder, packages) {
    await run('go', ['mod', 'init', 'driver'], { cwd: folder, timeoutMs: limitMs });
    await run('go', ['get', ...packages], { cwd: folder, timeoutMs: limitMs });
  },
  async java(folder, packages) {
    await writeFile(join(folder, 'pom.xml'), pomOf(packages));
    await run('mvn', ['-q', '-B', 'dependency:copy-dependencies', '-DoutputDirectory=lib'], { cwd: folder, timeoutMs: limitMs });
  },
  async rust(folder, packages) {
    await run('cargo', ['init', '--quiet', '--vcs', 'none', '--name', 'driver'], { cwd: folder, timeoutMs: limitMs });
    for (const each of packages) {
      const [, name = '', features = ''] = /^([^[]+)(?:\[(.*)\])?$/.exec(each) ?? [];
      await run('cargo', ['add', '--quiet', name, '--features', features], { cwd: folder, timeoutMs: limitMs });
    }
  },
};

interface Tool {
  readonly name: string;
  /** Prints the tool's version. */
  readonly command: readonly [string, ...string[]];
}

/** What has to be on the PATH. We install Python ourselves where we can. */
const tools: Readonly<Record<Runtime, readonly Tool[]>> = {
  node: [],
  python: [],
  go: [{ name: 'Go', command: ['go', 'version'] }],
  java: [
    { name: 'a JDK', command: ['javac', '--version'] },
    { name: 'Maven', command: ['mvn', '--version'] },
  ],
  rust: [{ name: 'Rust', command: ['cargo', '--version'] }],
};

async function requireTool({ name, command: [command, ...args] }: Tool): Promise<void> {
  await run(command, args, { timeoutMs: limitMs }).catch((error: Error) => {
    const isMissing = asObject(error.cause).code === 'ENOENT';
    throw isMissing ? new Error(`no ${command} on the PATH, install ${name}`, { cause: error }) : error;
  });
}

function pomOf(packages: readonly string[]): string {
  const dependencies = packages.map((each) => {
    const [group, artifact, version] = each.split(/[:@]/);
    return `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`;
  });
  const project = '<modelVersion>4.0.0</modelVersion><groupId>client</groupId><artifactId>driver</artifactId><version>1</version>';
  return `<project>${project}<dependencies>${dependencies.join('')}</dependencies></project>\n`;
}
