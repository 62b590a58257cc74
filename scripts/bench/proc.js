/** CPU time and memory of processes, from /proc: Linux only, NaN elsewhere. */
import { readdirSync, readFileSync } from 'node:fs';

/** Milliseconds of a clock tick in /proc: 100 ticks a second on every Linux that Node supports. */
const tickMs = 10;

/** @param {string} path */
function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // The process or thread has ended.
    return '';
  }
}

/** @param {number} pid @returns {string[]} */
function threadsOf(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** The process and what it started. @param {number} pid @returns {number[]} */
export function treeOf(pid) {
  const children = threadsOf(pid).flatMap((thread) => read(`/proc/${pid}/task/${thread}/children`).trim().split(' ').filter(Boolean));
  return [pid, ...children.map(Number).flatMap(treeOf)];
}

/**
 * CPU time so far by thread name; the main thread of each process is `main`. Threads that have ended are missing.
 * @param {number} pid of the first of the processes
 * @returns {Map<string, number>} milliseconds
 */
export function threadMs(pid) {
  /** @type {Map<string, number>} */
  const times = new Map();
  for (const process of treeOf(pid)) {
    for (const thread of threadsOf(process)) {
      const name = Number(thread) === process ? 'main' : read(`/proc/${process}/task/${thread}/comm`).trim();
      times.set(name, (times.get(name) ?? 0) + ranMs(process, thread));
    }
  }
  return times;
}

/** CPU time of one process so far, without those that it started. @param {number} pid */
export function ownCpuMs(pid) {
  return threadsOf(pid).reduce((sum, thread) => sum + ranMs(pid, thread), 0);
}

/** @param {number} process @param {string} thread */
function ranMs(process, thread) {
  return Number(read(`/proc/${process}/task/${thread}/schedstat`).split(' ', 1)[0]) / 1e6;
}

/** @param {number} pid of the first of the processes */
export function cpuMs(pid) {
  return [...threadMs(pid).values()].reduce((sum, value) => sum + value, 0);
}

/** CPU time of a server with a process per connection, those that have ended included. @param {number} pid */
export function serverCpuMs(pid) {
  const stat = read(`/proc/${pid}/stat`);
  // The fields after the program's name, which may hold spaces: the 14th and 15th are the times of children that have ended.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return cpuMs(pid) + (Number(fields[13]) + Number(fields[14])) * tickMs;
}

/** @param {number} pid of the first of the processes @returns {number} bytes; a share of what processes have in common */
export function memoryBytes(pid) {
  return treeOf(pid).reduce((sum, process) => sum + Number(/^Pss: *(\d+)/m.exec(read(`/proc/${process}/smaps_rollup`))?.[1]) * 1_024, 0);
}

/** The parent of a process; null when it has ended or belongs to another host. @param {number} pid */
export function parentOf(pid) {
  const stat = read(`/proc/${pid}/stat`);
  return stat === '' ? null : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

/** @param {number} pid */
export function nameOf(pid) {
  return read(`/proc/${pid}/comm`).trim();
}
