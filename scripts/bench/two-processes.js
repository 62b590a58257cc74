/**
 * Runs the `processes` scenario. It measures how many calls per second we get with one and with two API processes, and
 * checks that ceilings are exact in both cases. Each process only gets a share of a core. That way, the callers, the
 * vendor and PostgreSQL are never the bottleneck, even on a machine with two cores.
 */
import { basename } from 'node:path';
import { createCpuLimit } from './cpu-limit.js';
import { formatTable, summarize } from './report.js';
import { requestOf } from './scenarios.js';

/** @type {import('./scenarios.js').Scenario} */
const scenario = { title: 'chat, 64 connections, 1 and 2 processes with 0.3 cores each', connections: 64 };
const coresOfProcess = 0.3;
const [allowedCalls, triedCalls] = [500, 800];

/**
 * @param {import('./environment.js').Bench} bench
 * @param {{ checkouts: string[], rounds: number, warmUp: number, calls: number }} options
 * @returns {Promise<import('./report.js').Row[]>}
 */
export async function measureProcesses(bench, { checkouts, rounds, warmUp, calls }) {
  /** @type {import('./report.js').Row[]} */
  const rows = [];
  for (const checkout of checkouts) {
    /** @type {(() => Promise<void>)[]} */
    const ends = [];
    try {
      /** @type {Awaited<ReturnType<typeof bench.startGateway>>[]} */
      const targets = [];
      for (const workers of [1, 2]) {
        const limit = createCpuLimit(`${workers}-processes`, workers * coresOfProcess);
        if (!limit) {
          console.log(`\n${scenario.title}: skipped, because control groups cannot be created on this machine`);
          return rows;
        }
        const label = `${basename(checkout)} x${workers}`;
        const target = await bench.startGateway(checkout, { label, workers, prefix: limit.prefix });
        targets.push(target);
        ends.push(async () => {
          await target.gateway.program.stop();
          limit.remove();
        });
      }
      /** @type {Map<string, import('./measure.js').Round[]>} */
      const results = new Map(targets.map(({ label }) => [label, []]));
      for (const target of targets) await bench.warmUp(target, scenario, { calls, seconds: warmUp });
      for (let done = 0; done < rounds; done += 1)
        for (const target of targets) results.get(target.label)?.push(await bench.measure(target, scenario, calls));
      const found = summarize('processes', results);
      rows.push(...found);
      console.log(formatTable(found, scenario.title, ['perSecondToFirst']));
      for (const target of targets) await checkCeiling(bench, target);
    } finally {
      for (const end of ends) await end();
    }
  }
  return rows;
}

/**
 * Throws if a key with a ceiling on calls can make more or fewer calls than the ceiling allows.
 * @param {import('./environment.js').Bench} bench
 * @param {Awaited<ReturnType<import('./environment.js').Bench['startGateway']>>} target
 */
async function checkCeiling(bench, { label, port, gateway }) {
  const key = await gateway.createKey({ calls: allowedCalls });
  const request = requestOf(scenario, key);
  /** @type {import('./callers.js').Result} */
  const { calls, refused } = await bench.callers.ask({
    ...request,
    port,
    firstNumber: bench.nextNumber(),
    connections: scenario.connections,
    calls: triedCalls,
    mayFail: true,
  });
  if (calls !== allowedCalls) throw new Error(`${label}: a key made ${calls} calls, although its ceiling is ${allowedCalls}`);
  console.log(`${label}: of ${triedCalls} calls of a key that may make ${allowedCalls}, ${calls} were made and ${refused} refused`);
}
