/**
 * Sets up everything that a measurement needs: a temporary folder, core pinning, PostgreSQL, the vendor, the callers
 * and the floor.
 */
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { root } from '../launch.js';
import { imageFlags, startGateway } from './gateway.js';
import { measureRound } from './measure.js';
import { openPostgres } from './postgres.js';
import { createProcesses, pinCores } from './processes.js';

/** @typedef {import('./measure.js').Target & { stop?: () => Promise<void>, gateway?: import('./gateway.js').Gateway }} RunningTarget */

/**
 * Runs `work` with everything set up, and stops all programs afterwards.
 * @template Result
 * @param {{ vendorPort?: number }} options the vendor's port, which has to be fixed for programs that are configured in
 * advance
 * @param {(bench: Bench) => Promise<Result>} work
 * @returns {Promise<Result>}
 */
export async function withBench({ vendorPort = 0 }, work) {
  const folder = await mkdtemp(join(tmpdir(), 'gateway-bench-'));
  // Removes the folder even if a signal ends the run.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const { isPinned, measured } = pinCores(1);
  const processes = createProcesses(folder);
  const postgres = await openPostgres();
  try {
    console.log(`${cpus()[0]?.model}, ${cpus().length} processors, Node ${process.versions.node}, ${postgres.version}`);
    if (!isPinned) console.log('not pinned: one core or no taskset, so the programs share cores');
    const vendor = processes.fork('vendor.js', [String(vendorPort)]);
    const { port } = await vendor.ask();
    const callers = processes.fork('callers.js');
    return await work(createBench({ folder, measured, processes, postgres, vendor, callers, vendorPort: port }));
  } finally {
    await processes.stopAll();
    await postgres.close();
  }
}

/** @typedef {ReturnType<typeof createBench>} Bench */

/**
 * @param {object} parts
 * @param {string} parts.folder
 * @param {string[]} parts.measured
 * @param {ReturnType<typeof createProcesses>} parts.processes
 * @param {Awaited<ReturnType<typeof openPostgres>>} parts.postgres
 * @param {ReturnType<ReturnType<typeof createProcesses>['fork']>} parts.vendor
 * @param {ReturnType<ReturnType<typeof createProcesses>['fork']>} parts.callers
 * @param {number} parts.vendorPort
 */
function createBench({ folder, measured, processes, postgres, vendor, callers, vendorPort }) {
  let number = 0;
  /** Reserves a range of call numbers and returns the first. No number is ever used twice. */
  const nextNumber = () => {
    number += 1_000_000;
    return number;
  };
  return {
    folder,
    measured,
    processes,
    vendor,
    callers,
    vendorPort,
    nextNumber,
    /**
     * Lets us measure the vendor's latency without a gateway in between.
     * @type {RunningTarget}
     */
    direct: { label: 'vendor', pid: vendor.pid, port: vendorPort, keys: null, database: null },
    /** @returns {Promise<RunningTarget>} */
    async startFloor() {
      const file = fileURLToPath(new URL('floor.js', import.meta.url));
      const floor = await processes.start('floor', [
        ...measured,
        process.execPath,
        ...imageFlags(root),
        file,
        `http://127.0.0.1:${vendorPort}`,
      ]);
      return { label: 'floor', ...floor, keys: null, database: null };
    },
    /**
     * @param {string} checkout
     * @param {{ label?: string, workers?: number, flags?: string[], prefix?: string[], traces?: string, env?: Record<string, string> }} [options]
     * `prefix` replaces the command prefix that pins the gateway to its core, and `traces` is the ratio of sampled
     * requests
     * @returns {Promise<RunningTarget & { gateway: import('./gateway.js').Gateway }>}
     */
    async startGateway(checkout, { label = basename(checkout), prefix = measured, traces, ...options } = {}) {
      const database = await postgres.createDatabase();
      const gateway = await startGateway({
        name: label,
        checkout,
        processes,
        prefix,
        databaseUrl: database.url,
        vendorPort,
        folder,
        env: traces === undefined ? {} : tracesEnvironment(traces, (await processes.fork('collector.js').ask()).port),
        ...options,
      });
      return { label, ...gateway.program, keys: gateway.keys, database, gateway };
    },
    /**
     * @param {import('./measure.js').Target} target
     * @param {import('./scenarios.js').Scenario} scenario
     * @param {number} calls
     * @param {{ idleMs?: number, waits?: boolean }} [options]
     */
    measure: (target, scenario, calls, options) => measureRound({ target, scenario, calls, callers, vendor, nextNumber, ...options }),
    /**
     * Warms up the process by running rounds whose results we ignore. We only wait for the target to become idle after
     * the last one. If we waited after each of them, V8 would see half as many calls in the same time.
     * @param {import('./measure.js').Target} target
     * @param {import('./scenarios.js').Scenario} scenario
     * @param {{ calls: number, seconds: number }} options `calls` is the number of calls per round
     */
    async warmUp(target, scenario, { calls, seconds }) {
      const endsAt = performance.now() + seconds * 1_000;
      while (performance.now() < endsAt) await this.measure(target, scenario, calls, { waits: false });
      if (seconds > 0) await this.measure(target, scenario, calls);
    },
  };
}

/** @param {string} ratio @param {number} port the port of the collector */
function tracesEnvironment(ratio, port) {
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: ratio,
  };
}
