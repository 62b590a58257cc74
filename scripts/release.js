/**
 * `npm run release -- 0.2.0` makes a release from a clean clone whose tests have passed. "Releases" in CONTRIBUTING.md
 * says when to do this.
 *
 * Commits `Release 0.2.0` and tags it, writes `dist/model-gateway-0.2.0.tar.gz`, builds the image if Docker is
 * installed, and commits the next development version. Nothing is pushed, so you can look at everything first.
 *
 *   --next 0.3.0   the version after this one; by default the next minor version
 *   --no-image     doesn't build the image
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { endWithError, root } from './launch.js';
import { BootstrapError, say } from './npm.js';

/**
 * Each file that contains the version, and how it's written there. The lock file is listed twice, because it has the
 * version in two places. Between releases, the version ends with `-dev`.
 * @type {[file: string, format: (version: string) => string][]}
 */
const versioned = [
  ['package.json', (version) => `"version": "${version}"`],
  ['package-lock.json', (version) => `"version": "${version}"`],
  ['package-lock.json', (version) => `"version": "${version}"`],
  ['Dockerfile', (version) => `VERSION=${version}`],
  ['docker-compose.yml', (version) => `GATEWAY_VERSION:-${version}}`],
];
/** Documents with examples that contain the version of the next release. */
const examples = ['docs/kubernetes.md', 'docs/deploying.md'];

try {
  release(readOptions());
} catch (error) {
  endWithError(error);
}

/** @param {{ version: string, next: string, image: boolean }} options */
function release({ version, next, image }) {
  const tag = `v${version}`;
  check(version, tag);
  for (const [file, format] of versioned) replace(file, format(`${version}-dev`), format(version));
  replace('CHANGELOG.md', '## Unreleased', `## ${version} - ${new Date().toISOString().slice(0, 10)}`);
  git('commit', '--all', '--quiet', '--message', `Release ${version}`);
  git('tag', '--annotate', tag, '--message', `Release ${version}`);
  const commit = git('rev-parse', `${tag}^{commit}`);
  say(`${tag} is commit ${commit.slice(0, 8)}`);

  mkdirSync(join(root, 'dist'), { recursive: true });
  const archive = join('dist', `model-gateway-${version}.tar.gz`);
  git('archive', '--prefix', `model-gateway-${version}/`, '--output', archive, tag);
  say(`the sources are in ${archive}`);
  if (image) buildImage(version, commit);

  for (const [file, format] of versioned) replace(file, format(version), format(`${next}-dev`));
  for (const file of examples) replaceAll(file, `model-gateway:${version}`, `model-gateway:${next}`);
  replace('CHANGELOG.md', `## ${version} - `, `## Unreleased\n\n## ${version} - `);
  const previous = read('test/support/previous-release.ts');
  const released = `previousRelease = { version: '${version}', commit: '${commit}' };`;
  write(
    'test/support/previous-release.ts',
    previous.replace(/previousRelease = \{.*\};/, () => released),
  );
  git('commit', '--all', '--quiet', '--message', `Start ${next}`);
  say(`to publish it: git push --follow-tags origin ${git('branch', '--show-current')}`);
}

/** @returns {{ version: string, next: string, image: boolean }} */
function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { next: { type: 'string' }, 'no-image': { type: 'boolean', default: false } },
  });
  const [version = '', ...rest] = positionals;
  const match = /^(\d+)\.(\d+)\.\d+$/.exec(version);
  if (!match || rest.length > 0) throw new BootstrapError('pass the version, for example: npm run release -- 0.2.0');
  const next = values.next ?? `${match[1]}.${Number(match[2]) + 1}.0`;
  if (!/^\d+\.\d+\.\d+$/.test(next) || next === version) throw new BootstrapError(`--next: ${next} is not a later version`);
  return { version, next, image: !values['no-image'] };
}

/** @param {string} version @param {string} tag */
function check(version, tag) {
  if (git('status', '--porcelain') !== '') throw new BootstrapError('there are uncommitted changes; commit or stash them first');
  if (git('tag', '--list', tag) !== '') throw new BootstrapError(`the tag ${tag} already exists`);
  const current = JSON.parse(read('package.json')).version;
  if (current !== `${version}-dev`) {
    throw new BootstrapError(`package.json has version ${current}; for ${version} it has to be ${version}-dev`);
  }
  const unreleased = /\n## Unreleased\n([\s\S]*?)\n## /.exec(read('CHANGELOG.md'))?.[1] ?? '';
  if (unreleased.trim() === '') throw new BootstrapError('the changelog has nothing under "Unreleased"');
}

/** @param {string} version @param {string} commit */
function buildImage(version, commit) {
  const image = `model-gateway:${version}`;
  try {
    execFileSync('docker', ['version'], { stdio: 'ignore' });
  } catch {
    say(`Docker is not installed, so ${image} was not built; docs/deploying.md has the command`);
    return;
  }
  execFileSync('docker', ['build', '--build-arg', `REVISION=${commit}`, '--tag', image, '.'], { cwd: root, stdio: 'inherit' });
}

/**
 * Replaces the first occurrence of a text in a file. Throws if there is none.
 * @param {string} file
 * @param {string} from
 * @param {string} to
 */
function replace(file, from, to) {
  const text = read(file);
  if (!text.includes(from)) throw new BootstrapError(`${file} doesn't contain ${from}`);
  write(
    file,
    text.replace(from, () => to),
  );
}

/** @param {string} file @param {string} from @param {string} to */
function replaceAll(file, from, to) {
  write(file, read(file).replaceAll(from, to));
}

/** @param {string} file */
function read(file) {
  return readFileSync(join(root, file), 'utf8');
}

/** @param {string} file @param {string} text */
function write(file, text) {
  writeFileSync(join(root, file), text);
}

/** @param {string[]} args */
function git(...args) {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
}
