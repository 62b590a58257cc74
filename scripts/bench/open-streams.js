/**
 * Runs the `open-streams` scenario. It measures how much memory thousands of open streams take, and whether that stays
 * constant.
 */
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuMs, memoryBytes } from './proc.js';
import { requestOf } from './scenarios.js';
import { openChunkMs } from './texts.js';

const samples = 12;
/** The number of file descriptors that a process needs in addition to those of its streams. */
const otherFiles = 200;

/**
 * @typedef {object} OpenStreams
 * @property {'open-streams'} scenario
 * @property {string} target
 * @property {number} streams
 * @property {number[]} kilobytesPerStream measured while the streams are open, every `openChunkMs`
 * @property {number} cpuPercent percentage of a core, with one event per stream every `openChunkMs`
 * @property {number} megabytesBefore
 * @property {number} megabytesAfter measured some seconds after the streams are closed
 */

/**
 * @param {import('./environment.js').Bench} bench
 * @param {{ targets: import('./measure.js').Target[], streams: number }} options
 * @returns {Promise<OpenStreams[]>}
 */
export async function measureOpenStreams(bench, { targets, streams }) {
  const files = Number(execFileSync('/bin/sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })) || Number.POSITIVE_INFINITY;
  const count = Math.min(streams, Math.floor((files - otherFiles) / 2));
  /** @type {OpenStreams[]} */
  const rows = [];
  console.log(
    `\n${count} open streams, an event each ${openChunkMs / 1_000} s${count < streams ? ' (as many as the limit of open files allows)' : ''}`,
  );
  for (const target of targets) {
    const request = requestOf({ title: '', connections: 0, vendor: 'open', streams: true }, target.keys?.['plain'] ?? null);
    const before = memoryBytes(target.pid);
    const { open, closedEarly } = await bench.callers.ask({ ...request, port: target.port, firstNumber: bench.nextNumber(), open: count });
    if (open !== count) throw new Error(`${target.label}: ${open} of ${count} streams are open, ${closedEarly} were closed`);
    const [cpuBefore, from] = [cpuMs(target.pid), performance.now()];
    /** @type {number[]} */
    const kilobytesPerStream = [];
    for (let sample = 0; sample < samples; sample += 1) {
      await sleep(openChunkMs);
      kilobytesPerStream.push((memoryBytes(target.pid) - before) / count / 1_000);
    }
    const cpuPercent = ((cpuMs(target.pid) - cpuBefore) * 100) / (performance.now() - from);
    const state = await bench.callers.ask({ count: true });
    if (state.open !== count) throw new Error(`${target.label}: ${count - state.open} streams ended early`);
    await bench.callers.ask({ close: true });
    await sleep(2 * openChunkMs);
    const megabytesAfter = memoryBytes(target.pid) / 1e6;
    rows.push({
      scenario: 'open-streams',
      target: target.label,
      streams: count,
      kilobytesPerStream,
      cpuPercent,
      megabytesBefore: before / 1e6,
      megabytesAfter,
    });
    const each = kilobytesPerStream.map((value) => value.toFixed(1)).join(', ');
    console.log(`${target.label}: kB of each stream every ${openChunkMs / 1_000} s: ${each}; ${cpuPercent.toFixed(0)} % of a core`);
    console.log(`${target.label}: ${(before / 1e6).toFixed(0)} MB before, ${megabytesAfter.toFixed(0)} MB after`);
  }
  return rows;
}
