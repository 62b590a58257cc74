/**
 * Identifies and terminates processes that can outlive the gateway. The operating system reuses pids, so a pid alone
 * isn't enough. We also remember when the process started, and only terminate it if both match.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface ProcessIdentity {
  readonly pid: number;
  /**
   * When the process started. On Linux this is in ticks since boot, and elsewhere it's a date. We only compare it for
   * equality.
   */
  readonly startTime: string;
}

/** Returns the identity of a running process. Returns null if there's no such process, or if it's a zombie. */
export async function identifyProcess(pid: number): Promise<ProcessIdentity | null> {
  const startTime = process.platform === 'linux' ? await readLinuxStartTime(pid) : await readPsStartTime(pid);
  return startTime === null ? null : { pid, startTime };
}

export async function isRunning(identity: ProcessIdentity): Promise<boolean> {
  return (await identifyProcess(identity.pid))?.startTime === identity.startTime;
}

/**
 * Sends SIGTERM and, if that doesn't help, SIGKILL after a while. Returns once the process has exited. If the pid
 * belongs to a different process by now, this does nothing.
 */
export async function terminateProcess(identity: ProcessIdentity, graceMs: number): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGTERM', graceMs],
    ['SIGKILL', 5_000],
  ] as const) {
    if (!(await isRunning(identity))) return;
    try {
      process.kill(identity.pid, signal);
    } catch {
      // already exited
      return;
    }
    const deadline = performance.now() + waitMs;
    while (performance.now() < deadline) {
      if (!(await isRunning(identity))) return;
      await sleep(20);
    }
  }
}

async function readLinuxStartTime(pid: number): Promise<string | null> {
  // If the process has exited, the file doesn't exist.
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  if (stat === null) return null;
  // The second field is the name of the command in parentheses, which can itself contain spaces and parentheses. So we
  // only split what comes after the last closing parenthesis. In the whole line, the state is the 3rd field and the
  // start time the 22nd.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' ? null : (fields[19] ?? null);
}

async function readPsStartTime(pid: number): Promise<string | null> {
  // `ps` fails if there's no such process.
  const result = await run('ps', ['-o', 'lstart=', '-p', String(pid)]).catch(() => null);
  return result?.stdout.trim() || null;
}
