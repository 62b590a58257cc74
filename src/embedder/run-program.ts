/** Runs a package manager, which can take minutes. The gateway's secrets are kept out of its environment. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { errorCode, errorSummary } from '../core/error-messages.ts';
import { isObject } from '../core/json/narrow.ts';

const run = promisify(execFile);

export type Variables = Readonly<Record<string, string | undefined>>;

interface ProgramOptions {
  readonly folder: string;
  readonly variables: Variables;
  readonly signal: AbortSignal;
}

/** How long a package manager, or the download of a model from the hub, may take over a slow connection. */
export const fetchTimeoutMs = 10 * 60_000;

/**
 * Matches the environment variables that package managers need. All others, such as the vendors' keys, are withheld.
 */
const neededNames =
  /^(?:PATH|HOME|USER|LANG|TMPDIR|SSL_CERT_(?:FILE|DIR)|NODE_EXTRA_CA_CERTS|XDG_[A-Z_]+|JAVA_[A-Z_]+|MAVEN_[A-Z_]+|NPM_[A-Z_]+|PIP_[A-Z_]+|(?:HTTPS?|NO|ALL)_PROXY)$/i;

/**
 * Rejects with a one-line message if the program is missing or fails. If the signal is aborted, rejects with the
 * signal's reason.
 */
export async function runProgram(program: string, given: readonly string[], { folder, variables, signal }: ProgramOptions): Promise<void> {
  const needed = Object.entries(variables).filter(([name, value]) => value !== undefined && neededNames.test(name));
  const env = Object.fromEntries(needed);
  try {
    await run(program, given, { cwd: folder, env, timeout: fetchTimeoutMs, signal, maxBuffer: 64 * 1024 * 1024 });
  } catch (error) {
    signal.throwIfAborted();
    if (errorCode(error) === 'ENOENT') throw new Error(`${program} is not on the PATH`);
    throw new Error(`${program} failed: ${describe(error)}`);
  }
}

/** Picks the most helpful lines of the output, which are the first ones that mention an error. */
function describe(error: unknown): string {
  const output = isObject(error) ? `${String(error['stderr'] ?? '')}\n${String(error['stdout'] ?? '')}` : '';
  const lines = output.split('\n').map((line) => line.replace('npm error', '').trim());
  const telling = lines.filter((line) => /\berror\b|^code\b|^syscall\b/i.test(line)).slice(0, 3);
  if (isObject(error) && error['killed'] === true) return 'it timed out';
  return (telling.join(', ') || errorSummary(error)).slice(0, 300);
}
