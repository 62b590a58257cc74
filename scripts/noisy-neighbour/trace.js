/**
 * Records what the gateway does while we measure: how long the turns of its event loop take, its garbage collections,
 * the CPU time of its threads, and a CPU profile. All times come from the monotonic clock, which all programs on a
 * machine share, so you can compare them with the times of the other project's calls.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { threadMs, waitedMs } from '../bench/proc.js';
import { openInspector } from '../heap.js';
import { formatTimeline } from './timeline.js';

const sampleMs = 50;
const samplingMicros = 500;

/**
 * This code runs in the gateway. It has a timer that should fire every millisecond, so its delays show how long the
 * turns of the event loop take.
 */
const recorder = `(() => {
  const { PerformanceObserver } = process.getBuiltinModule('node:perf_hooks');
  const clock = () => Number(process.hrtime.bigint()) / 1e6;
  const offset = clock() - performance.now();
  const cpu = () => { const { user, system } = process.threadCpuUsage(); return (user + system) / 1e3; };
  const state = { turns: [], collections: [] };
  const observer = new PerformanceObserver((list) => {
    for (const { startTime, duration, detail } of list.getEntries()) state.collections.push([startTime + offset, duration, detail.kind]);
  });
  observer.observe({ entryTypes: ['gc'] });
  let [at, used] = [clock(), cpu()];
  const timer = setInterval(() => {
    const [now, usedNow] = [clock(), cpu()];
    if (now - at > 5) state.turns.push([at, now - at, usedNow - used]);
    [at, used] = [now, usedNow];
  }, 1);
  globalThis.endTrace = () => { clearInterval(timer); observer.disconnect(); return JSON.stringify(state); };
})()`;

/**
 * Returns a function that starts a trace, which returns a function that ends it and writes its files.
 * @param {object} options
 * @param {import('../bench/gateway.js').Gateway} options.gateway
 * @param {number} options.pid
 * @param {string} options.folder
 * @param {boolean} options.isProfiled
 * @param {() => Record<string, number>} options.others returns the CPU time of the other programs so far
 */
export async function openTrace({ gateway, pid, folder, isProfiled, others }) {
  const inspector = await openInspector(gateway.program.log());
  await mkdir(folder, { recursive: true });
  /** @param {string} name */
  return async (name) => {
    if (isProfiled) {
      await inspector.send('Profiler.enable');
      await inspector.send('Profiler.setSamplingInterval', { interval: samplingMicros });
      await inspector.send('Profiler.start');
    }
    await inspector.send('Runtime.evaluate', { expression: recorder });
    /** @type {import('./timeline.js').Sample[]} */
    const samples = [];
    const timer = setInterval(() => {
      samples.push({
        at: Number(process.hrtime.bigint()) / 1e6,
        threads: Object.fromEntries(threadMs(pid)),
        waited: waitedMs(pid),
        others: others(),
      });
    }, sampleMs);
    /** @param {Pick<import('./other-project.js').Result, 'calls' | 'newCalls'>} result */
    return async ({ calls, newCalls }) => {
      clearInterval(timer);
      const { result } = await inspector.send('Runtime.evaluate', { expression: 'endTrace()' });
      const { profile } = isProfiled ? await inspector.send('Profiler.stop') : { profile: null };
      const trace = { ...JSON.parse(result.value), samples, calls, newCalls };
      await writeFile(join(folder, `${name}.json`), JSON.stringify(trace));
      await writeFile(join(folder, `${name}.txt`), formatTimeline(trace));
      if (profile) await writeFile(join(folder, `${name}.cpuprofile`), JSON.stringify(profile));
    };
  };
}
