/** Limits programs to a share of the processors, with control groups: Linux, as root. */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import process from 'node:process';

const periodMicros = 20_000;

/**
 * Makes a group that gets `cores` of processor time. Null when this machine does not allow it.
 * @param {string} name
 * @param {number} cores
 * @returns {{ prefix: string[], remove: () => void } | null} prefix: of a command that runs in the group; remove: after the command has ended
 */
export function createCpuLimit(name, cores) {
  const quota = Math.round(cores * periodMicros);
  // The second version of control groups, then the first.
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
  // This process has fewer cores than the programs that are limited.
  const everyCore = ['taskset', '--cpu-list', `0-${allCores - 1}`];
  return { prefix: [...everyCore, '/bin/sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, name], remove };
}

/** Read before this process is pinned. */
const allCores = availableParallelism();
