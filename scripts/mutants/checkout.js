/** Copies of the repository in which mutants are tested, so that nothing changes in the working tree. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, cpSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import jestConfig from '../../jest.config.js';
import { root } from '../launch.js';

/** The script starts the shared services itself, once for all runs. */
const { globalSetup: _setup, globalTeardown: _teardown, ...config } = jestConfig;
const notCopied = ['.git', '.gateway', 'node_modules'];
/** An endless loop that allocates memory should fail soon. */
const maxHeapMebibytes = 2048;

/**
 * The offsets of a range in which every character was executed equally often. Ranges are nested, and the innermost one
 * counts.
 * @typedef {{ startOffset: number, endOffset: number, count: number }} Range
 */
/** @typedef {Map<string, Range[][]>} Coverage the ranges of each source file, once for each process that loaded it */
/** @typedef {{ status: 'killed' | 'survived' | 'timeout', failed: string | null, output: string, seconds: number }} TestRun */

/** @param {string} directory where to create the copy; removed by the caller */
export function createCheckout(directory) {
  const path = join(directory, 'checkout');
  cpSync(root, path, { recursive: true, filter: (source) => !notCopied.includes(basename(source)) });
  // Compiled code refers to the path of the copy, so it needs a cache of its own.
  const modules = join(path, 'node_modules');
  mkdirSync(modules);
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name !== '.cache') symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  const cache = join('node_modules', '.cache');
  cpSync(join(root, cache), join(path, cache), { recursive: true, filter: (source) => basename(source) !== 'compiled' });

  /** @type {number | undefined} */
  let runningPid;
  return {
    /** Kills the tests that are running. */
    stop: () => killGroup(runningPid),
    /**
     * Runs test files until one of them fails.
     * @param {readonly string[]} tests in the order in which to run them
     * @param {{ testLimitMs: number, limitMs: number }} limits how long a single test and all of them can take
     */
    run: (tests, limits) => runTests(tests, limits, {}),
    /**
     * Runs a test file and finds out which code it executes. This doesn't include processes that it kills.
     * @param {string} test
     * @returns {Promise<{ run: TestRun, coverage: Coverage }>}
     */
    async cover(test) {
      const folder = join(directory, 'coverage');
      // V8 can't count all executions of code that comes from the cache.
      const env = { NODE_V8_COVERAGE: folder, NODE_DISABLE_COMPILE_CACHE: '1' };
      const run = await runTests([test], { testLimitMs: 600_000, limitMs: 900_000 }, env);
      const coverage = existsSync(folder) ? readCoverage(folder, `${pathToFileURL(path)}/`) : new Map();
      rmSync(folder, { recursive: true, force: true });
      return { run, coverage };
    },
    /**
     * Calls `work` while a file has a different text.
     * @template T
     * @param {string} file
     * @param {(code: string) => string} change
     * @param {() => Promise<T>} work
     * @returns {Promise<T>}
     */
    async withChange(file, change, work) {
      const code = readFileSync(join(path, file), 'utf8');
      writeFileSync(join(path, file), change(code));
      try {
        return await work();
      } finally {
        writeFileSync(join(path, file), code);
      }
    },
  };

  /**
   * @param {readonly string[]} tests
   * @param {{ testLimitMs: number, limitMs: number }} limits
   * @param {Record<string, string>} env
   * @returns {Promise<TestRun>}
   */
  async function runTests(tests, { testLimitMs, limitMs }, env) {
    const temporary = join(directory, 'tmp');
    mkdirSync(temporary, { mode: 0o711 });
    const resultsFile = join(temporary, 'results.json');
    const outputFile = join(temporary, 'output');
    const output = openSync(outputFile, 'w');
    const jestOptions = {
      ...config,
      rootDir: path,
      cacheDirectory: join(directory, 'jest'),
      testSequencer: '<rootDir>/scripts/mutants/test-order.js',
      reporters: ['default', '<rootDir>/scripts/test-reporter.js'],
      testTimeout: testLimitMs,
    };
    const startedAt = performance.now();
    const child = spawn(
      process.execPath,
      [
        '--disable-warning=ExperimentalWarning',
        '--min-semi-space-size=16',
        `--max-old-space-size=${maxHeapMebibytes}`,
        join(path, 'node_modules', 'jest', 'bin', 'jest.js'),
        `--config=${JSON.stringify(jestOptions)}`,
        '--runInBand',
        '--bail',
        // A failed test can leave something open.
        '--forceExit',
        '--runTestsByPath',
        ...tests.map((test) => join(path, test)),
      ],
      {
        cwd: path,
        // This makes the child the leader of a process group, so that we can also stop what the tests have started.
        detached: true,
        stdio: ['ignore', output, output],
        env: {
          ...process.env,
          NODE_COMPILE_CACHE: join(path, cache, 'model-gateway', 'compiled'),
          TEST_ORDER: JSON.stringify(tests),
          TEST_RESULTS_FILE: resultsFile,
          TMPDIR: temporary,
          ...env,
        },
      },
    );
    closeSync(output);
    runningPid = child.pid;
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      killGroup(child.pid);
    }, limitMs);
    const [code] = await once(child, 'exit');
    clearTimeout(timer);
    killGroup(child.pid);
    runningPid = undefined;
    const seconds = (performance.now() - startedAt) / 1000;
    /** @type {import('../test-summary.js').FileResult[]} */
    const results = existsSync(resultsFile) ? JSON.parse(readFileSync(resultsFile, 'utf8')) : [];
    const failed = results.find((file) => file.failed + file.broken > 0)?.path ?? null;
    const text = readFileSync(outputFile, 'utf8');
    rmSync(temporary, { recursive: true, force: true, maxRetries: 5 });
    if (isLate) return { status: 'timeout', failed, output: text, seconds };
    return { status: code === 0 ? 'survived' : 'killed', failed, output: text, seconds };
  }
}

/** @param {number | undefined} pid */
function killGroup(pid) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // All of its processes have ended.
  }
}

/**
 * @param {string} folder
 * @param {string} prefix the URL of the checkout
 * @returns {Coverage}
 */
function readCoverage(folder, prefix) {
  /** @type {Coverage} */
  const coverage = new Map();
  for (const name of readdirSync(folder)) {
    /** @type {{ result: { url: string, functions: { ranges: Range[] }[] }[] }} */
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    for (const { url, functions } of result) {
      if (!url.startsWith(`${prefix}src/`)) continue;
      const file = url.slice(prefix.length);
      const ranges = functions.flatMap((each) => each.ranges);
      coverage.set(file, [...(coverage.get(file) ?? []), ranges]);
    }
  }
  return coverage;
}

/**
 * @param {Coverage} coverage
 * @param {{ file: string, start: number }} place
 */
export function isCovered(coverage, { file, start }) {
  return (coverage.get(file) ?? []).some((ranges) => {
    const around = ranges.filter(({ startOffset, endOffset }) => startOffset <= start && start < endOffset);
    return around.toSorted((a, b) => a.endOffset - a.startOffset - (b.endOffset - b.startOffset))[0]?.count;
  });
}
