/**
 * Finds Chromium for page tests, which use Playwright. We first look on the PATH and in the cache directory. If it's
 * missing, we install Debian's package as root on Debian, or else download Playwright's build into the cache directory.
 */
import { access, constants } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll } from '@jest/globals';
import { type Browser, chromium } from 'playwright-core';
import { cacheDirectory } from '../../scripts/cache.js';
import { withFileLock } from '../../scripts/file-lock.js';
import { apt, canInstallPackages } from './apt.ts';
import { foldersOnPath } from './on-path.ts';
import { run } from './run.ts';

/** The order matters. The headless shell is first, because it takes half as much CPU time to load a page. */
const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
/**
 * We pass our own list of features to disable, and Chromium only reads the last such list. So repeat what Playwright
 * disables, except for products that don't matter in tests.
 */
const disabledByPlaywright =
  'AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,PaintHolding';
const installLimitMs = 15 * 60_000;
/** Playwright's default of 30 seconds is too short for a page on a busy machine. */
const actionLimitMs = 300_000;

/**
 * Starts one browser for all tests of a file. Call this at the top of the file and use the result inside tests. Each
 * test creates its own context.
 */
export function sharedChromium(): () => Browser {
  let shared: Browser | undefined;
  beforeAll(async () => {
    const executablePath = await ensureChromium();
    // Root can't use the sandbox and containers don't permit it, but we don't need it, because we only open our own
    // pages. Emulating a GPU takes as much CPU time as loading ten pages, and we don't need the spare process that is
    // started for each page either. The last two options halve the CPU time of a page load.
    const args = [
      ...['--no-sandbox', '--disable-gpu', '--renderer-process-limit=1'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
      ...['--in-process-gpu', `--disable-features=RenderDocument,${disabledByPlaywright}`],
    ];
    shared = await chromium.launch({ executablePath, args, timeout: actionLimitMs });
    shared.on('context', (context) => context.setDefaultTimeout(actionLimitMs));
  }, installLimitMs);
  afterAll(async () => {
    await shared?.close();
  });
  return () => {
    if (!shared) throw new Error('the shared Chromium is there only while tests run');
    return shared;
  };
}

/**
 * Returns the path of a working Chromium. If it's missing, it gets installed first. If that doesn't work, throws an
 * error with the reasons.
 */
async function ensureChromium(): Promise<string> {
  const found = await findChromium();
  if (found !== null) return found;
  return withFileLock(join(cacheDirectory(), 'locks', 'chromium.lock'), {
    onWait: () => say('waiting for another run that installs Chromium'),
    work: async () => (await findChromium()) ?? (await installChromium()),
  });
}

async function installChromium(): Promise<string> {
  const installers = [...(canInstallPackages() ? [{ source: "Debian's package", install: installPackage }] : [])];
  installers.push({ source: "Playwright's download", install: downloadChromium });
  const failures: string[] = [];
  for (const { source, install } of installers) {
    try {
      say(`installing Chromium: ${source}`);
      await install();
      const found = await findChromium();
      if (found !== null) return found;
      failures.push(`${source}: does not run on this machine`);
    } catch (error) {
      failures.push(`${source}: ${error instanceof Error ? error.message : error}`);
    }
  }
  throw new Error(`no Chromium, put one on the PATH: ${failures.join('; ')}`);
}

async function installPackage(): Promise<void> {
  await apt(['update']);
  const install = (name: string): Promise<void> => apt(['install', '--yes', '--no-install-recommends', name]);
  // Older releases don't have the headless shell.
  await install('chromium-headless-shell').catch(() => install('chromium'));
}

async function downloadChromium(): Promise<void> {
  const withLibraries = canInstallPackages() ? ['--with-deps'] : [];
  const args = [join(playwrightFolder(), 'cli.js'), 'install', '--no-shell', ...withLibraries, 'chromium'];
  await run(process.execPath, args, { env: playwrightEnvironment(), timeoutMs: installLimitMs });
}

async function findChromium(): Promise<string | null> {
  const programs = foldersOnPath().flatMap((folder) => names.map((name) => join(folder, name)));
  for (const program of programs) if (await isRunnable(program)) return program;
  const downloaded = await downloadedChromium();
  return (await isRunnable(downloaded)) ? downloaded : null;
}

/** Returns where Playwright's download is or would be. */
async function downloadedChromium(): Promise<string> {
  const script = "process.stdout.write(require('playwright-core').chromium.executablePath())";
  return run(process.execPath, ['-e', script], { cwd: playwrightFolder(), env: playwrightEnvironment() });
}

/** Starts the program to find out if it works, because the package may be just a placeholder (as on Ubuntu). */
async function isRunnable(program: string): Promise<boolean> {
  try {
    await access(program, constants.X_OK);
    return /Chrom/.test(await run(program, ['--version']));
  } catch {
    return false; // If it's missing or can't be executed, we go on with the next candidate.
  }
}

function playwrightFolder(): string {
  return dirname(fileURLToPath(import.meta.resolve('playwright-core/package.json')));
}

function playwrightEnvironment(): NodeJS.ProcessEnv {
  return { ...process.env, PLAYWRIGHT_BROWSERS_PATH: join(cacheDirectory(), 'playwright') };
}

function say(text: string): void {
  process.stderr.write(`tests: ${text}\n`);
}
