/**
 * Child processes that may outlive us: told apart from strangers, and ended.
 *
 * A pid alone says nothing, since the system gives it out again. A pid together with the start time of its process is an identity, and
 * only a process whose identity is known is ever ended.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface ProcessIdentity {
  readonly pid: number;
  /** As the system writes it: ticks since boot on Linux, a date elsewhere. Only ever compared. */
  readonly startTime: string;
}

/** Identity of a running process; null when there is none of this pid (or it is dead and not yet waited for). */
export async function identifyProcess(pid: number): Promise<ProcessIdentity | null> {
  const startTime = process.platform === 'linux' ? await readLinuxStartTime(pid) : await readPsStartTime(pid);
  return startTime === null ? null : { pid, startTime };
}

export async function isRunning(identity: ProcessIdentity): Promise<boolean> {
  return (await identifyProcess(identity.pid))?.startTime === identity.startTime;
}

/** Asks the process to end, waits, then kills it. Returns when it is gone; a process of another identity is left alone. */
export async function terminateProcess(identity: ProcessIdentity, graceMs: number): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGTERM', graceMs],
    ['SIGKILL', 5_000],
  ] as const) {
    if (!(await isRunning(identity))) return;
    try {
      process.kill(identity.pid, signal);
    } catch {
      return; // It ended between the look and the signal.
    }
    const deadline = performance.now() + waitMs;
    while (performance.now() < deadline) {
      if (!(await isRunning(identity))) return;
      await sleep(20);
    }
  }
}

async function readLinuxStartTime(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null); // Unreadable means gone.
  if (stat === null) return null;
  // The second field is the command in parentheses and may itself hold spaces and parentheses; the third is the state, the 22nd the time.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' ? null : (fields[19] ?? null);
}

async function readPsStartTime(pid: number): Promise<string | null> {
  const result = await run('ps', ['-o', 'lstart=', '-p', String(pid)]).catch(() => null); // Exit 1: no such process.
  return result?.stdout.trim() || null;
}
