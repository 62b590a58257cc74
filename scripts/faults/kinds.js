/**
 * Defines the faults. Each of them says how to start and stop it, what callers may notice, and which signs an operator
 * should see.
 */
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { callers, sendCall } from './load.js';

/** @typedef {import('./stack.js').Stack} Stack */
/** @typedef {import('./load.js').Call} Call */

/**
 * @typedef {object} Kind
 * @property {string} title
 * @property {import('./watch.js').Expected} expected
 * @property {string} [provider] the provider that has the fault. Faults of vendors don't affect each other, so they
 * happen at the same time
 * @property {string} [model] the model that the load asks for. The default is served by a vendor that always works
 * @property {(stack: Stack, options: { streamSeconds: number }) => Promise<Extra | void>} begin
 * @property {(stack: Stack) => Promise<void>} end
 * @property {string} promise what the callers were promised, for the table
 * @property {(failed: Call[], beganAt: number) => boolean} isKept reports whether the promise allows the failed calls
 */

/**
 * @typedef {object} Extra
 * @property {Promise<string | null>[]} calls the results of calls that a fault makes in addition to the load
 * @property {number} downSeconds the longest time that a process took to start again after it had exited
 */

/**
 * The time until HAProxy notices that a replica isn't ready: two checks with an interval of 500 ms, plus the duration
 * of a check.
 */
const noticeMs = 3_000;

const none = (/** @type {Call[]} */ failed) => failed.length === 0;
/**
 * Returns true if every failed call was in flight when the fault began, or started shortly after.
 * @param {Call[]} failed
 * @param {number} beganAt
 */
const inFlightOnly = (failed, beganAt) => failed.length <= callers + 1 && failed.every(({ startedAt }) => startedAt <= beganAt + noticeMs);
/** @param {Call[]} failed @param {number} beganAt */
const atFirstOnly = (failed, beganAt) => failed.every(({ startedAt }) => startedAt <= beganAt + noticeMs);

/**
 * A fault that makes all calls to a provider fail, by sending them to a failing model.
 * @param {string} provider
 * @param {string} model a model of the scripted vendor
 */
const vendorFault = (provider, model) => ({
  provider,
  begin: async (/** @type {Stack} */ { fickleVendor }) => fickleVendor.fail(provider, model),
  end: async (/** @type {Stack} */ { fickleVendor }) => fickleVendor.fail(provider, null),
});

/** The names of the providers. Each kind of vendor fault has its own provider. */
export const providers = ['failing', 'down', 'hanging', 'cutting', 'throttling'];

/** @type {Readonly<Record<string, Kind>>} */
export const kinds = {
  'api-killed': {
    title: 'an API process is killed (kill -9) and stays down',
    expected: { readyz: /^gateway-1: no response/, metric: 'up{job="gateway"} == 0', alert: 'GatewayDown', log: null },
    begin: async (stack) => void (await stack.processOf('gateway-1').end('SIGKILL')),
    end: (stack) => stack.start('gateway-1'),
    promise: 'its calls in flight break',
    isKept: inFlightOnly,
  },
  'worker-killed': {
    title: 'the worker is killed (kill -9) and stays down',
    expected: {
      readyz: /^worker: no response/,
      metric: 'up{job="gateway-worker"} == 0',
      alert: 'WorkerMissing',
      log: 'Temporal tasks waiting for a worker',
    },
    begin: async (stack) => void (await stack.processOf('worker').end('SIGKILL')),
    end: (stack) => stack.start('worker'),
    promise: 'no call fails',
    isKept: none,
  },
  'postgres-stopped': {
    title: 'PostgreSQL is stopped',
    expected: {
      readyz: /^gateway-1: 200 .*database/,
      metric: 'gateway_database_up == 0',
      alert: 'DatabaseUnavailable',
      log: 'database unavailable; retrying',
    },
    begin: ({ postgres }) => postgres.kill(),
    end: ({ postgres }) => postgres.restart(),
    promise: 'no call fails, because the key is in memory',
    isKept: none,
  },
  'temporal-stopped': {
    title: 'Temporal is stopped',
    expected: {
      readyz: /^gateway-1: 200 .*Temporal/,
      metric: 'gateway_temporal_up == 0',
      alert: 'TemporalUnavailable',
      log: 'outbox dispatch paused',
    },
    begin: ({ temporal }) => temporal.kill(),
    end: ({ temporal }) => temporal.start(),
    promise: 'no call fails',
    isKept: none,
  },
  'disk-full': {
    title: 'the disk of an API process is full',
    expected: {
      readyz: /^gateway-1: 503 .*disk is full/,
      metric: 'gateway_journal_accepting == 0',
      alert: 'JournalNotWritable',
      log: 'journal write failed; calls are rejected',
    },
    begin: async ({ disk }) => fill(join(disk, 'ballast')),
    end: async ({ disk }) => rmSync(join(disk, 'ballast')),
    promise: 'calls are refused until the proxy notices',
    isKept: atFirstOnly,
  },
  'vendor-failing': {
    title: 'a vendor responds with 500, and the tier has another vendor',
    model: 'failing',
    expected: {
      readyz: null,
      metric: 'increase(gateway_attempts_total{provider="failing",outcome="failed"}[1m]) > 0',
      alert: 'BreakersOpen',
      log: 'attempt failed',
    },
    ...vendorFault('failing', 'fail-500'),
    promise: 'no call fails',
    isKept: none,
  },
  'vendors-failing': {
    title: 'the only vendor of a tier responds with 500',
    model: 'only-down',
    expected: {
      readyz: null,
      metric: 'increase(gateway_calls_total{outcome="failed"}[1m]) > 0',
      alert: 'CallsFail',
      log: 'attempt failed',
    },
    ...vendorFault('down', 'fail-500'),
    promise: 'every call gets 502 or 503',
    isKept: (failed) => failed.every(({ failure }) => /^50[23] /.test(failure ?? '')),
  },
  'vendor-hanging': {
    title: 'a vendor accepts requests but sends no response, and the tier has another vendor',
    model: 'hanging',
    expected: {
      readyz: null,
      metric: 'gateway_slow_attempts_total{provider="hanging"} > 0',
      alert: 'ProviderHangs',
      log: 'vendor unusually slow; counting it as a provider failure',
    },
    ...vendorFault('hanging', 'hang'),
    promise: 'no call fails',
    isKept: none,
  },
  'vendor-cutting': {
    title: 'a vendor cuts off its responses, and the tier has another vendor',
    model: 'cutting',
    expected: {
      readyz: null,
      metric: 'increase(gateway_attempts_total{provider="cutting",outcome="interrupted"}[1m]) > 0',
      alert: 'BreakersOpen',
      log: 'attempt failed',
    },
    ...vendorFault('cutting', 'echo+pace-20+long-10+break-after-4'),
    promise: 'streams break visibly until the breaker opens, then one in each probe',
    isKept: (failed) => failed.length <= 40 && failed.every(({ failure }) => /^broken connection/.test(failure ?? '')),
  },
  'vendor-throttling': {
    title: 'a vendor responds with 429, and the tier has another vendor',
    model: 'throttling',
    expected: {
      readyz: null,
      metric: 'increase(gateway_attempts_total{provider="throttling",outcome="rate_limited"}[1m]) > 0',
      alert: 'ProviderLimitsRate',
      log: 'attempt failed',
    },
    ...vendorFault('throttling', 'rate-limited'),
    promise: 'no call fails',
    isKept: none,
  },
  'rolling-restart': {
    title: 'rolling restart of both API processes and the worker, with long streams',
    expected: { readyz: /^gateway-1: 503 .*stopping/, metric: 'up == 0', alert: null, log: 'listening' },
    async begin(stack, { streamSeconds }) {
      const model = `steady/echo+pace-1000+long-${streamSeconds}`;
      const body = { model, stream: true, messages: [{ role: 'user', content: 'Take your time.' }] };
      const calls = Array.from({ length: 8 }, (_, index) =>
        sendCall(stack.proxyUrl, stack.keys.calls, body, { 'x-gateway-task-id': `rolling-restart-long-${index}` }, 2_000_000),
      );
      await sleep(2_000);
      let downSeconds = 0;
      for (const name of /** @type {const} */ (['gateway-1', 'gateway-2', 'worker'])) {
        // Wait until the process exits, which only happens after its last stream has ended. `end` would time out before
        // that.
        const process = stack.processOf(name);
        process.child.kill('SIGTERM');
        await process.exited;
        const exitedAt = performance.now();
        await stack.start(name);
        downSeconds = Math.max(downSeconds, (performance.now() - exitedAt) / 1_000);
        await stack.untilReady();
      }
      return { calls, downSeconds };
    },
    end: async () => undefined,
    promise: 'no call fails, and no long stream breaks',
    isKept: none,
  },
};

/** Fills the disk by appending to a file. @param {string} file */
function fill(file) {
  const descriptor = openSync(file, 'a');
  for (const size of [1_048_576, 4_096, 1]) {
    try {
      for (;;) writeSync(descriptor, Buffer.alloc(size));
    } catch {
      // The disk is almost full, so try a smaller write.
    }
  }
  closeSync(descriptor);
}
