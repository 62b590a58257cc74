/** Reads the CPU time and memory of processes from /proc. On systems other than Linux, the results are NaN. */
import { readdirSync, readFileSync } from 'node:fs';

/** The length of a clock tick in /proc. All Linux systems that Node supports have 100 ticks per second. */
const tickMs = 10;

/** @param {string} path */
function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // The process or thread has already ended.
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

/** Returns the process and all of its descendants. @param {number} pid @returns {number[]} */
export function treeOf(pid) {
  const children = threadsOf(pid).flatMap((thread) => read(`/proc/${pid}/task/${thread}/children`).trim().split(' ').filter(Boolean));
  return [pid, ...children.map(Number).flatMap(treeOf)];
}

/**
 * Returns how much CPU time the threads have used so far, grouped by thread name. The main thread of each process is
 * called `main`. Threads that have already exited aren't included.
 * @param {number} pid the root of the process tree
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

/** Returns a process's CPU time so far, without its child processes. @param {number} pid */
export function ownCpuMs(pid) {
  return threadsOf(pid).reduce((sum, thread) => sum + ranMs(pid, thread), 0);
}

/** @param {number} process @param {string} thread */
function ranMs(process, thread) {
  return Number(read(`/proc/${process}/task/${thread}/schedstat`).split(' ', 1)[0]) / 1e6;
}

/** Returns how long a process's main thread was ready to run but had to wait for a core. @param {number} pid */
export function waitedMs(pid) {
  return Number(read(`/proc/${pid}/task/${pid}/schedstat`).split(' ')[1]) / 1e6;
}

/** @param {number} pid the root of the process tree */
export function cpuMs(pid) {
  return [...threadMs(pid).values()].reduce((sum, value) => sum + value, 0);
}

/**
 * Returns the CPU time of PostgreSQL, which starts a process for each connection. Includes the processes that have
 * already exited.
 * @param {number} pid
 */
export function serverCpuMs(pid) {
  const stat = read(`/proc/${pid}/stat`);
  // The second field is the program's name, which can contain spaces, so start after it. From there, the 14th and 15th
  // fields are the CPU times of children that have exited.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return cpuMs(pid) + (Number(fields[13]) + Number(fields[14])) * tickMs;
}

/**
 * @param {number} pid the root of the process tree
 * @returns {number} bytes, with a proportional share of the memory that processes have in common (PSS)
 */
export function memoryBytes(pid) {
  return treeOf(pid).reduce((sum, process) => sum + Number(/^Pss: *(\d+)/m.exec(read(`/proc/${process}/smaps_rollup`))?.[1]) * 1_024, 0);
}

/**
 * Returns the pid of a process's parent, or null if the process has exited or runs on another host.
 * @param {number} pid
 */
export function parentOf(pid) {
  const stat = read(`/proc/${pid}/stat`);
  return stat === '' ? null : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

/** @param {number} pid */
export function nameOf(pid) {
  return read(`/proc/${pid}/comm`).trim();
}
