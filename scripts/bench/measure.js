/**
 * Runs one round of a scenario against a target. A target may still be busy after its last response, so we keep
 * measuring until it's idle.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuMs, memoryBytes, threadMs } from './proc.js';
import { requestOf } from './scenarios.js';

/**
 * A target counts as idle if it has used less than `usualIdleMs` of CPU time in each of `idleWindows` windows of
 * `windowMs`.
 */
const [windowMs, usualIdleMs, idleWindows] = [200, 8, 6];
/** These limits are generous, because after a warm-up the gateway may still have to store a whole minute of calls. */
const [storeLimitMs, idleLimitMs] = [300_000, 300_000];

/**
 * @typedef {object} Target
 * @property {string} label
 * @property {number} pid
 * @property {number} port
 * @property {Record<string, string> | null} keys the key of each project, or null for the floor and the vendor, which
 * don't need keys
 * @property {(vendor: string) => string[]} [headersOf] returns headers that select how the vendor answers
 * @property {{ countCalls: () => Promise<number>, cpuMs: () => number, storedBytes: () => Promise<number> } | null} database
 */

/**
 * @typedef {object} Round
 * @property {number} calls
 * @property {number} cpuMicros CPU time of the target per call
 * @property {number} mainMicros CPU time of its main threads only, per call
 * @property {number} databaseMicros
 * @property {number} perSecond
 * @property {Float64Array} durations
 * @property {Float64Array} firstBytes
 * @property {number} newBytes total size of the texts that were new in the sessions of all calls
 * @property {number} memory bytes after the round
 * @property {number} vendorCalls number of vendor requests per call
 */

/**
 * @param {object} options
 * @param {Target} options.target
 * @param {import('./scenarios.js').Scenario} options.scenario
 * @param {number} options.calls
 * @param {{ ask: (message?: object) => Promise<any> }} options.callers
 * @param {{ ask: (message?: object) => Promise<any> }} options.vendor
 * @param {() => number} options.nextNumber returns the first number for the calls of this round
 * @param {number} [options.idleMs] CPU time in 200 ms below which the target counts as idle
 * @param {boolean} [options.waits] false if the round ends with the last response, even if calls aren't stored yet
 * @returns {Promise<Round>}
 */
export async function measureRound({ target, scenario, calls, callers, vendor, nextNumber, idleMs = usualIdleMs, waits = true }) {
  const request = requestOf(scenario, target.keys?.[scenario.project ?? 'plain'] ?? null);
  const stored = await target.database?.countCalls();
  const vendorBefore = (await vendor.ask({})).requests;
  const [databaseBefore, threadsBefore] = [target.database?.cpuMs(), threadMs(target.pid)];
  /** @type {import('./callers.js').Result} */
  const result = await callers.ask({
    ...request,
    headers: [...request.headers, ...(target.headersOf?.(scenario.vendor ?? 'plain') ?? [])],
    port: target.port,
    firstNumber: nextNumber(),
    connections: scenario.connections,
    ...(scenario.perSecond && { perSecond: scenario.perSecond }),
    ...(scenario.grows && { grows: true }),
    ...(scenario.session && { session: scenario.session }),
    calls,
  });
  if (result.failure !== null || result.calls === 0) throw new Error(`${target.label}: ${result.failure ?? 'no call finished'}`);
  const vendorCalls = ((await vendor.ask({})).requests - vendorBefore) / result.calls;
  const expected = target.keys === null ? 1 : (scenario.vendorCalls ?? 1);
  if (vendorCalls !== expected) throw new Error(`${target.label}: expected ${expected} vendor calls per call, but got ${vendorCalls}`);
  if (waits && target.database && stored !== undefined) await untilStored(target, stored + result.calls);
  const threads = waits ? await untilIdle(target, idleMs) : threadMs(target.pid);
  const used = (/** @type {(name: string) => boolean} */ isCounted) =>
    [...threads].reduce((sum, [name, ms]) => sum + (isCounted(name) ? ms - (threadsBefore.get(name) ?? 0) : 0), 0);
  // On systems without /proc, we don't know the CPU time of threads.
  const perCall = (/** @type {number} */ ms) => (threads.size === 0 ? Number.NaN : (ms * 1_000) / result.calls);
  return {
    calls: result.calls,
    cpuMicros: perCall(used(() => true)),
    mainMicros: perCall(used((name) => name === 'main')),
    databaseMicros: perCall((target.database?.cpuMs() ?? Number.NaN) - (databaseBefore ?? 0)),
    perSecond: result.calls / result.seconds,
    durations: result.durations,
    firstBytes: result.firstBytes,
    newBytes: result.newBytes,
    memory: memoryBytes(target.pid),
    vendorCalls,
  };
}

/**
 * Waits until all calls have been stored. Without this, a gateway that postpones the work would seem cheaper than it
 * is.
 * @param {Target} target
 * @param {number} count
 */
async function untilStored({ label, database }, count) {
  let stored = 0;
  for (const limitAt = performance.now() + storeLimitMs; performance.now() < limitAt; await sleep(windowMs)) {
    stored = (await database?.countCalls()) ?? 0;
    if (stored >= count) return;
  }
  throw new Error(`${label}: only ${stored} of ${count} calls were stored in time`);
}

/**
 * Waits until the target is idle. We can only tell after watching it do nothing for a while. That time shouldn't count,
 * so we return the CPU time of its threads as of the last window in which it was busy.
 * @param {Pick<Target, 'label' | 'pid'>} target
 * @param {number} idleMs
 */
export async function untilIdle({ label, pid }, idleMs) {
  let busy = threadMs(pid);
  let last = cpuMs(pid);
  const limitAt = performance.now() + idleLimitMs;
  for (let quiet = 0; quiet < idleWindows; ) {
    await sleep(windowMs);
    if (performance.now() > limitAt) throw new Error(`${label}: did not become idle in time`);
    const now = threadMs(pid);
    const total = [...now.values()].reduce((sum, value) => sum + value, 0);
    quiet = total - last < idleMs ? quiet + 1 : 0;
    if (quiet === 0) busy = now;
    last = total;
  }
  return busy;
}
