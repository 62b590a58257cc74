/**
 * Watches what an operator would see during a fault, i.e. `/readyz`, metrics, alerts and logs, and records when each
 * sign appears.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { processNames } from './stack.js';

/**
 * @typedef {object} Sign
 * @property {number} seconds time since the fault began
 * @property {string} text
 */

/**
 * @typedef {object} Expected
 * @property {RegExp | null} readyz matches the response of a process, e.g. /^gateway-1: 503/. Null means that all
 * processes have to keep responding with 200
 * @property {string} metric a PromQL expression that only selects samples during the fault
 * @property {string | null} alert null if no alert has to fire
 * @property {string | null} log the message of a log line, or null if the fault is part of normal operation
 * @property {string} [provider] only alerts and log lines of this provider count
 */

/** @typedef {Record<'readyz' | 'metric' | 'alert' | 'log', Sign | null>} Signs */

const intervalMs = 250;

/**
 * Starts to watch. Cause the fault once `begin` resolves, and call `stop` at the end.
 * @param {import('./stack.js').Stack} stack
 * @param {Expected} expected
 */
export function watchSigns(stack, expected) {
  /** @type {Signs} */
  const signs = { readyz: null, metric: null, alert: null, log: null };
  /** We ignore these alerts, because they were already firing before the fault. @type {Set<string>} */
  const earlier = new Set();
  /**
   * The signs that appeared although we didn't expect them.
   * @type {Map<string, Sign>}
   */
  const others = new Map();
  /** Where we stopped reading each process's log, in bytes. @type {Map<object, number>} */
  const offsets = new Map();
  /** @type {PromiseWithResolvers<void>} */
  const hasBegun = Promise.withResolvers();
  let startedAt = performance.now();
  let isOver = false;
  /** @param {string} text @returns {Sign} */
  const note = (text) => ({ seconds: (performance.now() - startedAt) / 1_000, text });

  /** @param {string | undefined} provider undefined if the sign isn't about a single provider */
  const isOfProvider = (provider) => provider === undefined || expected.provider === undefined || provider === expected.provider;

  const checkReadiness = async () => {
    for (const name of processNames) {
      const said = `${name}: ${await stack.readiness(name)}`;
      if (expected.readyz?.test(said)) signs.readyz ??= note(said);
      else if (!said.endsWith(': 200') && !others.has(said)) others.set(said, note(said));
    }
  };
  const checkPrometheus = async () => {
    const [found, firing] = await Promise.all([stack.prometheus.query(expected.metric), stack.prometheus.firing()]);
    if (found.length > 0) signs.metric ??= note(`${expected.metric} is true (${found.join(', ')})`);
    for (const { alert, labels } of firing) {
      if (alert === expected.alert && isOfProvider(labels['provider'])) signs.alert ??= note(alert);
      else if (!earlier.has(alert) && !others.has(alert)) others.set(alert, note(`alert ${alert} ${labels['severity']}`));
    }
  };
  const readLogs = () => {
    for (const name of processNames) {
      const process = stack.processOf(name);
      const text = process.stdout();
      const offset = offsets.get(process) ?? 0;
      const end = text.lastIndexOf('\n') + 1;
      offsets.set(process, end);
      for (const line of text.slice(offset, end).split('\n')) {
        if (!/"level":"(?:warn|error)"/.test(line) && !(expected.log !== null && line.includes(`"msg":"${expected.log}"`))) continue;
        const { msg, reason, provider } = JSON.parse(line);
        const said = `${name}: ${msg}${reason ? ` (${reason})` : ''}`;
        if (msg === expected.log && isOfProvider(provider)) signs.log ??= note(said);
        else if (!others.has(msg)) others.set(msg, note(`log of ${said}`));
      }
    }
  };
  const watching = (async () => {
    for (const { alert } of await stack.prometheus.firing()) earlier.add(alert);
    readLogs();
    others.clear();
    signs.log = null;
    hasBegun.resolve();
    while (!isOver) {
      await Promise.all([checkReadiness(), checkPrometheus()]);
      readLogs();
      await sleep(intervalMs);
    }
  })();
  // `stop` rethrows the error. An unhandled rejection before that would end this process and leave the other programs
  // running.
  watching.catch(() => undefined);
  return {
    signs,
    others,
    async begin() {
      await hasBegun.promise;
      startedAt = performance.now();
    },
    seconds: () => (performance.now() - startedAt) / 1_000,
    /**
     * @returns {string[]}
     */
    missing: () =>
      /** @type {const} */ (['readyz', 'metric', 'alert', 'log']).filter((name) => expected[name] !== null && signs[name] === null),
    async stop() {
      isOver = true;
      await watching;
    },
  };
}
