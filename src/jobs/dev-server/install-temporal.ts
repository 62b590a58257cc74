/**
 * The two ways to get the Temporal program onto a machine that has none. Each puts `temporal` into the empty folder it is given and
 * returns the version; each throws one sentence when it cannot, at once where the answer is a refusal, so that the next way is tried.
 */
import { execFile, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { chmod, rm } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { errorCode } from '../../core/error-messages.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';

const run = promisify(execFile);

/** What of the process's environment matters here; handed in by the configuration. */
export interface TemporalEnvironment {
  /** The PATH. */
  readonly path: string;
  /** `$XDG_CACHE_HOME/model-gateway`, else `~/.cache/model-gateway`: shared by all clones. */
  readonly cacheDir: string;
  /** All variables, for the Go toolchain, which takes its proxy, cache and home from them. Only those it needs are handed on. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Where archives are downloaded from; Temporal's own address unless given. */
  readonly downloadOrigin?: string;
}

export interface InstallOptions {
  readonly folder: string;
  readonly environment: TemporalEnvironment;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The newest version that `go install` can build: later ones have `replace` lines in their go.mod. */
const buildableVersion = '1.5.1';

const responseTimeoutMs = 10_000;
const downloadTimeoutMs = 10 * 60_000;
const buildTimeoutMs = 30 * 60_000;

/** The archive that Temporal publishes for this platform. */
export async function downloadTemporal({ folder, environment, logger, signal }: InstallOptions): Promise<string> {
  const address = `${environment.downloadOrigin ?? 'https://temporal.download'}/cli/archive/latest?platform=${platform()}&arch=${architecture()}`;
  logger.info({}, `asking ${address}`);
  const body = await openArchive(address, signal);
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

/** Builds it with the Go toolchain of the machine: about five minutes on two cores, at the lowest priority. */
export async function buildTemporal({ folder, environment, logger, signal }: InstallOptions): Promise<string> {
  logger.info({}, `building temporal ${buildableVersion} with go install; that takes about five minutes, calls are served meanwhile`);
  const buildSignal = AbortSignal.any([signal, AbortSignal.timeout(buildTimeoutMs)]);
  await runGo(
    ['install', `github.com/temporalio/cli/cmd/temporal@v${buildableVersion}`],
    { ...goEnvironment(environment), GOBIN: folder },
    buildSignal,
  );
  return buildableVersion;
}

/** The archive's bytes; the server has ten seconds to answer, redirects included. */
async function openArchive(address: string, signal: AbortSignal): Promise<Readable> {
  const timeout = AbortSignal.timeout(responseTimeoutMs);
  // The signal stays tied to the body, so patience must end with the answer: it is given to a controller of its own.
  const request = new AbortController();
  const abort = (): void =>
    request.abort(timeout.aborted ? new Error(`no answer within ${responseTimeoutMs / 1000} seconds`) : signal.reason);
  timeout.addEventListener('abort', abort);
  signal.addEventListener('abort', abort);
  try {
    signal.throwIfAborted();
    const response = await fetch(address, { signal: request.signal });
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    return Readable.fromWeb(response.body);
  } catch (error) {
    // `fetch` says no more than "fetch failed"; what failed is its cause.
    throw isObject(error) && isObject(error['cause']) ? error['cause'] : error;
  } finally {
    timeout.removeEventListener('abort', abort);
    signal.removeEventListener('abort', abort);
  }
}

/** Runs `go` in a process group of its own, so that an abort ends its compilers too. */
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
    if (code !== 0) throw new Error(`go ended with ${code}: ${stderrTail.trim().split('\n').at(-1) ?? ''}`);
  } catch (error) {
    throw errorCode(error) === 'ENOENT' ? new Error('there is no go on the PATH') : error;
  } finally {
    signal.removeEventListener('abort', kill);
  }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL'); // Nothing to save: it worked in a folder that is thrown away.
  } catch {
    // The group ended by itself meanwhile.
  }
}

/** Calls are served while it builds. Compilers started from now on inherit this. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch {
    // Not allowed here, or it has ended: then it runs as it is.
  }
}

/** The variables Go needs and nothing else: vendors' keys are none of its business. */
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
  throw new Error(`there is no archive for ${process.platform}`);
}

function architecture(): string {
  if (process.arch === 'x64') return 'amd64';
  if (process.arch === 'arm64') return 'arm64';
  throw new Error(`there is no archive for ${process.arch}`);
}
