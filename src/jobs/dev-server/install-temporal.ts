/**
 * Installs the Temporal program, either from the official download or with `go install`. Both functions put `temporal`
 * into an empty folder and return its version. They throw if they fail, and the caller then tries the other one. We
 * don't retry a download that the server rejects.
 */
import { execFile, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { chmod, rm } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { errorCode } from '../../core/error-messages.ts';
import { openDownload } from '../../core/open-download.ts';
import type { Logger } from '../../observability/logger.ts';

const run = promisify(execFile);

/** The parts of the process's environment that the installers need. */
export interface TemporalEnvironment {
  readonly path: string;
  /** `$XDG_CACHE_HOME/model-gateway` or else `~/.cache/model-gateway`, which all clones share. */
  readonly cacheDir: string;
  /** All environment variables. We only pass on those that the Go toolchain needs (proxy, cache, home). */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** The origin of the archives. The default is Temporal's own. */
  readonly downloadOrigin?: string;
}

export interface InstallOptions {
  readonly folder: string;
  readonly environment: TemporalEnvironment;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The newest version that `go install` can build. Later ones have `replace` directives in go.mod. */
const buildableVersion = '1.5.1';

const downloadTimeoutMs = 10 * 60_000;
const buildTimeoutMs = 30 * 60_000;

/** Downloads the archive that Temporal publishes for this platform. */
export async function downloadTemporal({ folder, environment, logger, signal }: InstallOptions): Promise<string> {
  const address = `${environment.downloadOrigin ?? 'https://temporal.download'}/cli/archive/latest?platform=${platform()}&arch=${architecture()}`;
  logger.info({ url: address }, 'downloading temporal');
  const body = await openDownload(new URL(address), { signal });
  const archive = join(folder, 'archive.tar.gz');
  await pipeline(body, createWriteStream(archive, { mode: 0o600 }), {
    signal: AbortSignal.any([signal, AbortSignal.timeout(downloadTimeoutMs)]),
  });
  await run('tar', ['-xzf', archive, '-C', folder, 'temporal'], { signal, env: { PATH: environment.path } });
  await rm(archive);
  const program = join(folder, 'temporal');
  await chmod(program, 0o755);
  const { stdout } = await run(program, ['--version'], { timeout: 30_000, signal, env: {} });
  return /version v?(\d[\w.+-]*)/.exec(stdout)?.[1] ?? 'latest';
}

/**
 * Builds the program with the machine's Go toolchain at the lowest priority. This takes about five minutes on two
 * cores.
 */
export async function buildTemporal({ folder, environment, logger, signal }: InstallOptions): Promise<string> {
  logger.info({ version: buildableVersion }, 'building temporal with go install; takes about five minutes, calls are served meanwhile');
  const buildSignal = AbortSignal.any([signal, AbortSignal.timeout(buildTimeoutMs)]);
  await runGo(
    ['install', `github.com/temporalio/cli/cmd/temporal@v${buildableVersion}`],
    { ...goEnvironment(environment), GOBIN: folder },
    buildSignal,
  );
  return buildableVersion;
}

/** Runs `go` in its own process group, so that an abort also kills its compilers. */
async function runGo(args: readonly string[], variables: Record<string, string>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const child = spawn('go', args, { env: variables, detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
  const kill = (): void => killGroup(child.pid);
  signal.addEventListener('abort', kill);
  let stderrTail = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderrTail = (stderrTail + text).slice(-2_000);
  });
  try {
    if (child.pid !== undefined) lowerPriority(child.pid);
    const code = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve));
    signal.throwIfAborted();
    if (code !== 0) throw new Error(`go exited with ${code}: ${stderrTail.trim().split('\n').at(-1) ?? ''}`);
  } catch (error) {
    throw errorCode(error) === 'ENOENT' ? new Error('go is not on the PATH') : error;
  } finally {
    signal.removeEventListener('abort', kill);
  }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    // SIGKILL is fine, because we delete the folder anyway.
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group has exited in the meantime.
  }
}

/** Lowers the priority, because we serve calls during the build. Compilers that `go` starts from now on inherit it. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch {
    // We're not permitted to do this, or the process has already exited. The build continues at normal priority.
  }
}

/** Returns only the variables that Go needs, so that it doesn't see vendor keys. */
function goEnvironment({ path, variables }: TemporalEnvironment): Record<string, string> {
  const neededNames =
    /^(?:GO[A-Z0-9_]*|CGO_[A-Z_]+|CC|CXX|HOME|USER|LANG|TMPDIR|SSL_CERT_(?:FILE|DIR)|XDG_CACHE_HOME|XDG_CONFIG_HOME|(?:HTTPS?|NO|ALL)_PROXY|GIT_[A-Z_]+)$/i;
  const entries = Object.entries(variables).flatMap(([name, value]): [string, string][] =>
    value !== undefined && neededNames.test(name) ? [[name, value]] : [],
  );
  return { ...Object.fromEntries(entries), PATH: path };
}

function platform(): string {
  if (process.platform === 'linux' || process.platform === 'darwin') return process.platform;
  throw new Error(`there is no download for ${process.platform}`);
}

function architecture(): string {
  if (process.arch === 'x64') return 'amd64';
  if (process.arch === 'arm64') return 'arm64';
  throw new Error(`there is no download for ${process.arch}`);
}
