/** Limits how much CPU time programs get, with Linux control groups. Only root can do that. */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import process from 'node:process';

const periodMicros = 20_000;

/**
 * Creates a group that gets `cores` of CPU time. Returns null if this machine doesn't allow it.
 * @param {string} name
 * @param {number} cores
 * @returns {{ prefix: string[], remove: () => void } | null} `prefix` goes before a command to run it in the group.
 * Call `remove` after the command has ended
 */
export function createCpuLimit(name, cores) {
  const quota = Math.round(cores * periodMicros);
  // Use cgroups v2 if the system has them, and v1 otherwise.
  if (existsSync('/sys/fs/cgroup/cgroup.controllers'))
    return createGroup('/sys/fs/cgroup', name, { 'cpu.max': `${quota} ${periodMicros}` });
  return createGroup('/sys/fs/cgroup/cpu', name, { 'cpu.cfs_period_us': String(periodMicros), 'cpu.cfs_quota_us': String(quota) });
}

/**
 * @param {string} parent
 * @param {string} name
 * @param {Record<string, string>} settings
 */
function createGroup(parent, name, settings) {
  const group = `${parent}/gateway-bench-${process.pid}-${name}`;
  const remove = () => rmdirSync(group);
  try {
    mkdirSync(group);
  } catch {
    return null;
  }
  try {
    for (const [file, value] of Object.entries(settings)) writeFileSync(`${group}/${file}`, value, { flag: 'r+' });
  } catch {
    remove();
    return null;
  }
  // This process is pinned to some of the cores, and a limited program would inherit that. With `taskset`, it can use
  // every core.
  const everyCore = ['taskset', '--cpu-list', `0-${allCores - 1}`];
  return { prefix: [...everyCore, '/bin/sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, name], remove };
}

/** Count the cores before this process is pinned to some of them. */
const allCores = availableParallelism();
