/**
 * Installs the Temporal CLI, either from the official download or with `go install`. Each function puts `temporal` into
 * an empty folder and returns its version. If the download fails, the caller tries `go install` next.
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

export interface TemporalEnvironment {
  readonly path: string;
  /** `$XDG_CACHE_HOME/model-gateway` or `~/.cache/model-gateway`. All clones on this machine share it. */
  readonly cacheDir: string;
  /**
   * The gateway's environment variables. Only those for the proxy, the cache and the home directory are passed on to
   * the Go toolchain.
   */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** The address of the archives. Defaults to Temporal's own site. */
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

/**
 * These make the build faster. The first two leave out debug information, which Go doesn't need for stack traces. The
 * tag is from the Makefile of Temporal's server. It leaves out a gRPC client of Google's storage that Temporal doesn't
 * use, and with it a tenth of all packages.
 */
const buildFlags = ['-gcflags=all=-dwarf=false', '-ldflags=-s -w', '-tags=disable_grpc_modules'];

const downloadTimeoutMs = 10 * 60_000;
const buildTimeoutMs = 30 * 60_000;

export async function downloadTemporal({ folder, environment, logger, signal }: InstallOptions): Promise<string> {
  const address = `${environment.downloadOrigin ?? 'https://temporal.download'}/cli/archive/latest?platform=${platform()}&arch=${architecture()}`;
  logger.info({ url: address }, 'downloading Temporal');
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

/** Builds the CLI with the local Go toolchain at the lowest priority, which takes about three minutes on two cores. */
export async function buildTemporal({ folder, environment, logger, signal }: InstallOptions): Promise<string> {
  logger.info(
    { version: buildableVersion },
    'building Temporal with go install, which takes about three minutes; calls are served in the meantime',
  );
  const buildSignal = AbortSignal.any([signal, AbortSignal.timeout(buildTimeoutMs)]);
  await runGo(
    ['install', ...buildFlags, `github.com/temporalio/cli/cmd/temporal@v${buildableVersion}`],
    { ...goEnvironment(environment), GOBIN: folder },
    buildSignal,
  );
  return buildableVersion;
}

/** Runs `go` in a process group of its own, so that aborting also kills the compilers that it has started. */
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
    // It's fine to use SIGKILL, because the caller deletes the folder that these processes write to anyway.
    process.kill(-pid, 'SIGKILL');
  } catch {
    // This fails if all processes of the group have already exited.
  }
}

/**
 * Lowers the priority of the build, because the gateway has to serve calls meanwhile. Compilers that `go` starts later
 * inherit the priority.
 */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch {
    // If the process has exited, there's nothing to do. If we lack the permission, the build continues at normal
    // priority.
  }
}

/** Returns the variables that Go needs. Leaves out everything else, in particular the vendors' keys. */
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
