/**
 * `npm run mutants` measures whether the tests notice defects. It makes small changes to the code, one at a time, and
 * runs the tests of the changed module. If they still pass, the mutant has survived: either the change makes no
 * difference, or a test is missing.
 *
 *   npm run mutants                                   300 mutants, 50 in each of six modules
 *   npm run mutants -- src/http src/memory/items      in these modules, with the tests in test/http and test/memory/items
 *   npm run mutants -- --json after.json --against before.json
 *
 *   --per-module 50  how many mutants to draw in each module
 *   --seed 1         draws other mutants. A mutant's rank only depends on the seed, its file and the change, so most
 *                    mutants stay the same when you edit the code
 *   --service        mutants that survive also have to survive the tests in test/service that execute the changed code.
 *                    Of these we run the fastest ones, as many as fit into a minute. To find out which tests execute
 *                    what, we have to run all of them once
 *   --jobs 2         how many mutants to test at a time, by default one for each CPU
 *   --json FILE      also writes the results to a file
 *   --against FILE   lists mutants that were killed according to an earlier file and survive now, and exits with status
 *                    1 if there are any. Use it to make sure that no test is missing after you have merged or deleted some
 *
 * We first run each test file alone to see which code it executes and how long it takes. A mutant that no test executes
 * has the status `no tests`. One that makes the tests hang has the status `timeout` and counts as noticed, so don't use
 * the machine for anything else in the meantime.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { startServices } from '../test/support/services.ts';
import { readArguments } from './arguments.js';
import { takeWithin } from './changed-tests.js';
import { endWithError, root } from './launch.js';
import { createCheckout, isCovered } from './mutants/checkout.js';
import { findMutations } from './mutants/mutators.js';
import { BootstrapError } from './npm.js';
import { createTestDirectory } from './test-directory.js';

/** @typedef {ReturnType<typeof createCheckout>} Checkout */
/** @typedef {'killed' | 'survived' | 'timeout' | 'no tests'} Status */
/**
 * `occurrence` tells apart equal changes in the same file. `killedBy` is the test file that failed, or null if the
 * process has crashed.
 * @typedef {object} Mutant
 * @property {string} module
 * @property {string} file
 * @property {number} line
 * @property {string} mutator
 * @property {string} original
 * @property {string} replacement
 * @property {number} occurrence
 * @property {Status} status
 * @property {string | null} killedBy
 */
/** @typedef {Mutant & { start: number, end: number, tests: string[] }} Drawn `tests` execute the changed code */

const defaultModules = ['src/routing', 'src/failover', 'src/keys', 'src/ceilings', 'src/pipeline', 'src/http'];
const serviceSeconds = 60;
const shownLength = 100;

await runMutants().catch(endWithError);
process.exit();

async function runMutants() {
  const { values, positionals } = readArguments({
    allowPositionals: true,
    options: {
      'per-module': { type: 'string', default: '50' },
      seed: { type: 'string', default: '1' },
      service: { type: 'boolean', default: false },
      jobs: { type: 'string', default: String(availableParallelism()) },
      json: { type: 'string' },
      against: { type: 'string' },
    },
  });
  if (!(Number(values.jobs) >= 1 && Number(values['per-module']) >= 1))
    throw new BootstrapError('--jobs and --per-module must be at least 1');
  const modules = positionals.length > 0 ? positionals.map((module) => module.replace(/\/$/, '')) : defaultModules;
  const before = values.against === undefined ? null : readResults(values.against);
  const mutants = modules.flatMap((module) => draw(module, Number(values['per-module']), values.seed));

  const directory = createTestDirectory((reason) => {
    console.log(`${reason}; stopping the run`);
    process.exit(1);
  });
  /** @type {Checkout[]} */
  const checkouts = [];
  process.once('exit', () => {
    for (const checkout of checkouts) checkout.stop();
    directory.remove();
  });
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
  process.env['TMPDIR'] = directory.path;
  const stopServices = await startServices();
  for (let job = 0; job < Number(values.jobs); job += 1) {
    const path = join(directory.path, String(job));
    mkdirSync(path, { mode: 0o711 });
    checkouts.push(createCheckout(path));
  }
  /** @type {Map<string, number>} */
  const durations = new Map();
  for (const module of modules) {
    const ofModule = mutants.filter((mutant) => mutant.module === module);
    await testMutants(checkouts, ofModule, listFiles(module.replace(/^src/, 'test'), '.test.ts'), durations);
    save();
  }
  if (values.service) {
    const left = mutants.filter(({ status }) => status === 'survived' || status === 'no tests');
    await testMutants(checkouts, left, listFiles('test/service', '.test.ts'), durations, serviceSeconds);
    save();
  }
  await stopServices();

  report(mutants);
  if (before !== null) compare(before, mutants);

  function save() {
    const results = mutants.map(({ start: _start, end: _end, tests: _tests, ...mutant }) => mutant);
    if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(results, null, 2)}\n`);
  }
}

/** @param {readonly Mutant[]} mutants */
function report(mutants) {
  console.log('\nNo test noticed these mutants:');
  for (const mutant of mutants) if (!isNoticed(mutant)) console.log(describe(mutant));
  for (const [module, ofModule = []] of Object.entries(Object.groupBy(mutants, (mutant) => mutant.module))) {
    const counts = Object.entries(Object.groupBy(ofModule, ({ status }) => status)).map(([status, { length }]) => `${length} ${status}`);
    console.log(`${module}: ${counts.join(', ')}`);
  }
}

/**
 * Draws the mutants of a module by the hash of their change, so that the same ones are drawn again after most edits.
 * @param {string} module
 * @param {number} count
 * @param {string} seed
 * @returns {Drawn[]}
 */
function draw(module, count, seed) {
  const files = listFiles(module, '.ts');
  const all = files.flatMap((file) => {
    const code = readFileSync(join(root, file), 'utf8');
    /** @type {Map<string, number>} */
    const occurrences = new Map();
    return findMutations(file, code).map(({ mutator, start, end, replacement }) => {
      const original = code.slice(start, end);
      const change = `${mutator} ${original} ${replacement}`;
      const occurrence = (occurrences.get(change) ?? 0) + 1;
      occurrences.set(change, occurrence);
      const line = code.slice(0, start).split('\n').length;
      /** @type {Status} */
      const status = 'no tests';
      return { module, file, line, mutator, original, replacement, occurrence, status, killedBy: null, start, end, tests: [] };
    });
  });
  if (all.length === 0) throw new BootstrapError(`${module} has no code to change`);
  /** @param {Mutant} mutant */
  const rankOf = (mutant) =>
    createHash('sha256')
      .update(`${seed} ${keyOf(mutant)}`)
      .digest('hex');
  const ranked = all.map((mutant) => ({ mutant, rank: rankOf(mutant) })).toSorted((a, b) => (a.rank < b.rank ? -1 : 1));
  const drawn = ranked.slice(0, count).map(({ mutant }) => mutant);
  return drawn.toSorted((a, b) => (a.file === b.file ? a.start - b.start : a.file < b.file ? -1 : 1));
}

/**
 * Runs the tests for each mutant and sets its status.
 * @param {readonly Checkout[]} checkouts
 * @param {readonly Drawn[]} mutants
 * @param {readonly string[]} tests
 * @param {Map<string, number>} durations of tests without a mutant, in seconds; filled by this function
 * @param {number} [maxSeconds] how long the tests of a mutant may take without it
 */
async function testMutants(checkouts, mutants, tests, durations, maxSeconds = Number.POSITIVE_INFINITY) {
  for (const mutant of mutants) mutant.tests = [];
  await inParallel(checkouts, tests, async (checkout, test) => {
    const { run, coverage } = await checkout.cover(test);
    if (run.status !== 'survived') {
      console.log(`${test} fails without a mutant, so we leave it out:\n${run.output}`);
      return;
    }
    durations.set(test, run.seconds);
    for (const mutant of mutants) if (isCovered(coverage, mutant)) mutant.tests.push(test);
  });
  /** @param {string} test */
  const durationOf = (test) => durations.get(test) ?? 0;
  const covered = mutants.filter((mutant) => mutant.tests.length > 0);
  await inParallel(checkouts, covered, async (checkout, mutant) => {
    const fastestFirst = mutant.tests.toSorted((a, b) => durationOf(a) - durationOf(b));
    const selected = takeWithin(maxSeconds, fastestFirst, Object.fromEntries(durations));
    const limits = limitsOf(selected.map(durationOf));
    const { start, end, replacement } = mutant;
    const change = (/** @type {string} */ code) => code.slice(0, start) + replacement + code.slice(end);
    const run = await checkout.withChange(mutant.file, change, () => checkout.run(selected, limits));
    mutant.status = run.status;
    mutant.killedBy = run.failed;
    console.log(describe(mutant));
  });
}

/**
 * How long the tests may take with a mutant. If a test hangs, it should fail before we stop all of them, but an endless
 * loop also keeps Jest from noticing that. The limits leave room for a machine that is busier than before, but we don't
 * want to wait for minutes either.
 * @param {readonly number[]} durations of the test files without a mutant
 */
function limitsOf(durations) {
  const slowest = Math.max(...durations);
  const total = durations.reduce((sum, each) => sum + each, 0);
  return {
    testLimitMs: 1000 * (slowest + Math.min(slowest + 10, 60)),
    limitMs: 1000 * (total + Math.min(2 * total + 10, 90)),
  };
}

/**
 * @template T
 * @param {readonly Checkout[]} checkouts
 * @param {readonly T[]} items
 * @param {(checkout: Checkout, item: T) => Promise<void>} work
 */
async function inParallel(checkouts, items, work) {
  const queue = items.values();
  await Promise.all(
    checkouts.map(async (checkout) => {
      for (const item of queue) await work(checkout, item);
    }),
  );
}

/**
 * @param {readonly Mutant[]} before
 * @param {readonly Mutant[]} after
 */
function compare(before, after) {
  const old = new Map(before.map((mutant) => [keyOf(mutant), mutant]));
  const lost = after.filter((mutant) => {
    const earlier = old.get(keyOf(mutant));
    return earlier && isNoticed(earlier) && !isNoticed(mutant);
  });
  const compared = after.filter((mutant) => old.has(keyOf(mutant))).length;
  console.log(`${lost.length} of the ${compared} mutants that are in both runs were noticed before and aren't any more`);
  for (const mutant of lost) console.log(`${describe(mutant)}; was noticed by ${old.get(keyOf(mutant))?.killedBy}`);
  if (lost.length > 0) process.exitCode = 1;
}

/** @param {Mutant} mutant */
function isNoticed({ status }) {
  return status === 'killed' || status === 'timeout';
}

/** @param {Mutant} mutant */
function keyOf({ file, mutator, original, replacement, occurrence }) {
  return [file, mutator, original, replacement, occurrence].join('\0');
}

/** @param {Mutant} mutant */
function describe({ file, line, mutator, original, replacement, status }) {
  const [from, to] = [original, replacement].map((code) => code.replaceAll(/\s+/g, ' ').slice(0, shownLength));
  return `${status}: ${file}:${line} ${mutator}: ${from} → ${to}`;
}

/**
 * @param {string} folder
 * @param {string} suffix
 */
function listFiles(folder, suffix) {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).toSorted();
  return names.filter((name) => name.endsWith(suffix)).map((name) => join(folder, name));
}

/**
 * @param {string} file
 * @returns {Mutant[]}
 */
function readResults(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}
