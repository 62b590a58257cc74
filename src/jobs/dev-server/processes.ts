/**
 * Identifies and terminates processes that may outlive the gateway.
 *
 * The system reuses pids, so a process is identified by pid and start time, and only a process whose identity matches is terminated.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface ProcessIdentity {
  readonly pid: number;
  /** As the system prints it: ticks since boot on Linux, a date elsewhere. Only compared for equality. */
  readonly startTime: string;
}

/** Identity of a running process. Null when no process has this pid, or it is a zombie. */
export async function identifyProcess(pid: number): Promise<ProcessIdentity | null> {
  const startTime = process.platform === 'linux' ? await readLinuxStartTime(pid) : await readPsStartTime(pid);
  return startTime === null ? null : { pid, startTime };
}

export async function isRunning(identity: ProcessIdentity): Promise<boolean> {
  return (await identifyProcess(identity.pid))?.startTime === identity.startTime;
}

/** Sends SIGTERM, waits, then sends SIGKILL. Returns when the process has exited; leaves a process of another identity alone. */
export async function terminateProcess(identity: ProcessIdentity, graceMs: number): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGTERM', graceMs],
    ['SIGKILL', 5_000],
  ] as const) {
    if (!(await isRunning(identity))) return;
    try {
      process.kill(identity.pid, signal);
    } catch {
      return; // It exited between the check and the signal.
    }
    const deadline = performance.now() + waitMs;
    while (performance.now() < deadline) {
      if (!(await isRunning(identity))) return;
      await sleep(20);
    }
  }
}

async function readLinuxStartTime(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null); // Unreadable: the process has exited.
  if (stat === null) return null;
  // The second field is the command in parentheses, which may contain spaces and parentheses. The third is the state, the 22nd the start time.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' ? null : (fields[19] ?? null);
}

async function readPsStartTime(pid: number): Promise<string | null> {
  const result = await run('ps', ['-o', 'lstart=', '-p', String(pid)]).catch(() => null); // Exit 1: no such process.
  return result?.stdout.trim() || null;
}
