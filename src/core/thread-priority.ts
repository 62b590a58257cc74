/** Lowers the priority of threads. This is best effort, because only Linux has thread priorities. */
import { readdirSync, readFileSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';

/** Returns the ids of this process's threads. */
export function listThreads(): ReadonlySet<string> {
  try {
    return new Set(readdirSync('/proc/self/task'));
  } catch {
    return new Set();
  }
}

/** Lowers the priority of the threads. `nice` is the difference from the priority of the process. */
export function lowerPriorities(threads: Iterable<string>, nice: number): void {
  for (const thread of threads) {
    try {
      setPriority(Number(thread), Math.min(getPriority() + nice, constants.priority.PRIORITY_LOW));
    } catch {
      // This fails if the thread has ended, or if this isn't Linux. We don't need to handle either case.
    }
  }
}

/** Lists V8's own threads, which compile code and collect garbage. */
export function listV8Threads(): string[] {
  return [...listThreads()].filter((thread) => nameOf(thread) === 'V8Worker');
}

function nameOf(thread: string): string {
  try {
    return readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim();
  } catch {
    return '';
  }
}
