/**
 * Finds PostgreSQL with pgvector on this machine, or installs Debian's packages as root on Debian.
 *
 * Debian has had a pgvector package since trixie. On older releases, we build it from the source package of a newer
 * suite and keep it in the cache directory. We read the machine's apt configuration but don't change it.
 */
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { APT_LIMIT_MS, apt, canInstallPackages } from './apt.ts';
import { type AptSource, parseDeb822, parseOneLine, sourceListFor } from './apt-sources.ts';
import { run } from './run.ts';

/** These suites have pgvector 0.8 or newer. The most stable one comes first. */
const SUITES_WITH_PGVECTOR = ['trixie', 'forky', 'sid'];

/**
 * Returns the folder with the `postgres` and `initdb` programs of a server that supports `create extension vector`. If
 * there is none, throws an error with the reason.
 */
export async function ensurePostgres(): Promise<string> {
  const present = await findServer();
  if (present !== null && (await hasVector(present))) return present;
  if (!canInstallPackages()) {
    const missing = present === null ? 'no PostgreSQL server' : 'the PostgreSQL server has no pgvector';
    throw new Error(`${missing} here, and it is installed automatically only on Debian as root: set DATABASE_URL`);
  }
  return withFileLock(join(cacheDirectory(), 'locks', 'postgres.lock'), {
    onWait: () => say('waiting for another run that installs PostgreSQL'),
    work: installOnDebian,
  });
}

async function installOnDebian(): Promise<string> {
  let bin = await findServer();
  let listsAreFresh = false;
  const install = async (...packages: string[]) => {
    if (!listsAreFresh) await apt(['update']);
    listsAreFresh = true;
    say(`installing ${packages.join(' ')}`);
    await apt(['install', '--yes', '--no-install-recommends', ...packages]);
  };
  if (bin === null) {
    await install('postgresql');
    bin = await findServer();
    if (bin === null) throw new Error('Debian\'s package "postgresql" was installed, but no server was found');
  }
  if (await hasVector(bin)) return bin;

  const major = await majorVersion(bin);
  const built = await findBuilt(major);
  if (built !== null) {
    await installVector(built, bin);
    return bin;
  }
  const offered = await run('apt-cache', ['show', `postgresql-${major}-pgvector`]).then(
    () => true,
    () => false,
  );
  if (offered) {
    await install(`postgresql-${major}-pgvector`);
    return bin;
  }
  // Install the keyring too, because older images don't have the keys of newer suites.
  await install(`postgresql-server-dev-${major}`, 'gcc', 'make', 'libc6-dev', 'debian-archive-keyring');
  await installVector(await buildVector(bin, major), bin);
  return bin;
}

/** Returns the folder of the oldest installed server, because that's the one on which our SQL has to work. */
async function findServer(): Promise<string | null> {
  const debian = '/usr/lib/postgresql';
  const majors = existsSync(debian) ? await readdir(debian) : [];
  const candidates = majors.sort((left, right) => Number(left) - Number(right)).map((major) => join(debian, major, 'bin'));
  const onPath = await run('pg_config', ['--bindir']).catch(() => '');
  return [...candidates, onPath.trim()].find((bin) => bin !== '' && existsSync(join(bin, 'initdb'))) ?? null;
}

async function hasVector(bin: string): Promise<boolean> {
  const { library, extension } = await folders(bin);
  return existsSync(join(extension, 'vector.control')) && existsSync(join(library, 'vector.so'));
}

async function folders(bin: string): Promise<{ library: string; extension: string }> {
  const ask = async (what: string) => (await run(join(bin, 'pg_config'), [what])).trim();
  const [library, share] = await Promise.all([ask('--pkglibdir'), ask('--sharedir')]);
  return { library, extension: join(share, 'extension') };
}

async function majorVersion(bin: string): Promise<string> {
  const version = await run(join(bin, 'pg_config'), ['--version']);
  return /\d+/.exec(version)?.[0] ?? '';
}

/** Returns the result of an earlier build, which is a folder with `lib` and `extension`. */
async function findBuilt(major: string): Promise<string | null> {
  const names = await readdir(cacheDirectory());
  const name = names.find((entry) => entry.startsWith('pgvector-') && entry.endsWith(`-pg${major}`));
  return name === undefined ? null : join(cacheDirectory(), name);
}

/** Builds pgvector from Debian's source package for the server in `bin`. The result is in the cache directory. */
async function buildVector(bin: string, major: string): Promise<string> {
  const scratch = await mkdtemp(join(tmpdir(), 'gateway-pgvector-'));
  try {
    const archive = await downloadSource(scratch);
    const version = /_(\d[^_]*)\.orig\./.exec(archive)?.[1] ?? '';
    say(`building pgvector ${version} for PostgreSQL ${major}`);
    const source = join(scratch, 'source');
    await mkdir(source);
    await run('tar', ['--extract', '--strip-components=1', '--file', archive, '--directory', source]);
    // The cache may be shared with other machines, so set OPTFLAGS to avoid instructions that only this CPU has. LLVM
    // bitcode is only good for inlining and needs clang, so leave it out.
    const settings = [`PG_CONFIG=${join(bin, 'pg_config')}`, 'OPTFLAGS=', 'with_llvm=no'];
    const staged = join(scratch, 'staged');
    await run('make', ['--jobs=2', ...settings], { cwd: source, timeoutMs: APT_LIMIT_MS });
    await run('make', ['install', `DESTDIR=${staged}`, ...settings], { cwd: source });

    const { library, extension } = await folders(bin);
    const home = join(cacheDirectory(), `pgvector-${version}-pg${major}`);
    const part = await mkdtemp(`${home}.part-`);
    await copyAll(join(staged, library), join(part, 'lib'));
    await copyAll(join(staged, extension), join(part, 'extension'));
    await rename(part, home);
    return home;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Downloads pgvector's source archive into `folder` with apt, which checks the signature. Returns its path. */
async function downloadSource(folder: string): Promise<string> {
  const sources = await readAptSources('/etc/apt');
  const failures: string[] = [];
  for (const suite of SUITES_WITH_PGVECTOR) {
    const list = sourceListFor(suite, sources);
    if (list === null) throw new Error("no entry of the machine's apt configuration is Debian's main archive");
    const options = await isolateApt(join(folder, suite), list);
    try {
      await apt([...options, 'update', '--error-on=any']);
      await apt([...options, 'source', '--download-only', 'pgvector'], folder);
      const archive = (await readdir(folder)).find((name) => name.includes('.orig.'));
      if (archive !== undefined) return join(folder, archive);
    } catch (error) {
      failures.push(`${suite}: ${error instanceof Error ? error.message : error}`);
    }
  }
  throw new Error(`Debian's source of pgvector could not be had: ${failures.join('; ')}`);
}

/**
 * Returns options that make apt only use `list` and keep its package lists in `folder`, so that the machine's
 * configuration doesn't change.
 */
async function isolateApt(folder: string, list: string): Promise<string[]> {
  await mkdir(join(folder, 'lists', 'partial'), { recursive: true });
  const file = join(folder, 'pgvector.sources');
  await writeFile(file, list);
  return [
    '-o',
    `Dir::Etc::SourceList=${file}`,
    '-o',
    'Dir::Etc::SourceParts=/dev/null',
    '-o',
    `Dir::State::Lists=${join(folder, 'lists')}`,
  ];
}

/** Returns all entries in an apt configuration folder. */
async function readAptSources(folder: string): Promise<AptSource[]> {
  const parts = join(folder, 'sources.list.d');
  const names = existsSync(parts) ? (await readdir(parts)).map((name) => join(parts, name)) : [];
  const files = [join(folder, 'sources.list'), ...names].filter((file) => existsSync(file));
  const read = async (file: string) => {
    const text = await readFile(file, 'utf8');
    if (file.endsWith('.sources')) return parseDeb822(text);
    return file.endsWith('.list') ? parseOneLine(text) : [];
  };
  return (await Promise.all(files.map(read))).flat();
}

async function installVector(built: string, bin: string): Promise<void> {
  const { library, extension } = await folders(bin);
  await copyAll(join(built, 'lib'), library);
  await copyAll(join(built, 'extension'), extension);
}

/**
 * Copies the files of a folder. Each file is renamed into place, because a running server may have mapped the old one.
 */
async function copyAll(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const name of await readdir(from)) {
    const part = join(to, `.${basename(name)}.part`);
    await copyFile(join(from, name), part);
    await rename(part, join(to, name));
  }
}

function say(text: string): void {
  process.stderr.write(`tests: ${text}\n`);
}
