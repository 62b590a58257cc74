/**
 * Runs a private Prometheus with the rules and intervals in deploy/prometheus, to find out when the alerts fire.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { ensurePrometheusProgram } from '../../test/support/prometheus-programs.ts';
import { until } from '../../test/support/until.ts';
import { unusedPort } from '../../test/support/unused-port.ts';
import { root } from '../launch.js';
import { BootstrapError } from '../npm.js';

/** @typedef {{ alert: string, labels: Record<string, string> }} FiringAlert */

/**
 * Divides all durations in the configuration and the rules by `scale`, including thresholds in seconds, e.g. for the
 * lag of the journal.
 * @param {string} text @param {number} scale
 */
export function scaleDurations(text, scale) {
  const seconds = { s: 1, m: 60, h: 3_600 };
  return text
    .replaceAll(
      /(\[|for: |_interval: )(\d+)([smh])/g,
      (_whole, before, count, unit) =>
        `${before}${Math.round((Number(count) * 1_000 * seconds[/** @type {'s' | 'm' | 'h'} */ (unit)]) / scale)}ms`,
    )
    .replaceAll(
      /((?:journal_lag|outbox_lag|learning_lag|temporal_backlog_age)_seconds\)?) > (\d+)/g,
      (_whole, metric, count) => `${metric} > ${Number(count) / scale}`,
    );
}

/**
 * @param {{ folder: string, scale: number, targets: Record<string, Record<string, string>> }} options `targets` has the
 * addresses of metrics by job and by name of the process, which becomes the label `instance`
 */
export async function startPrometheus({ folder, scale, targets }) {
  const program = await ensurePrometheusProgram('prometheus');
  if (program === null)
    throw new BootstrapError('Prometheus is missing; install it, because this script can only do that as root on Debian');
  const [rules, config] = await Promise.all(
    ['alerts.yaml', 'prometheus.yml'].map((name) => readFile(join(root, 'deploy', 'prometheus', name), 'utf8')),
  );
  await writeFile(join(folder, 'alerts.yaml'), scaleDurations(rules ?? '', scale));
  const scaled = parse(scaleDurations(config ?? '', scale));
  scaled.scrape_configs = Object.entries(targets).map(([job, processes]) => ({
    job_name: job,
    static_configs: Object.entries(processes).map(([instance, address]) => ({ targets: [address], labels: { instance } })),
  }));
  const file = join(folder, 'prometheus.yml');
  await writeFile(file, stringify(scaled));
  const address = `127.0.0.1:${await unusedPort()}`;
  const child = spawn(
    program,
    [`--config.file=${file}`, `--storage.tsdb.path=${join(folder, 'samples')}`, `--web.listen-address=${address}`],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    output = (output + text).slice(-5_000);
  });
  /** @param {string} path @param {Record<string, string>} [query] */
  const ask = async (path, query = {}) => {
    const response = await fetch(`http://${address}/api/v1/${path}?${new URLSearchParams(query)}`);
    const { status, data, error } = /** @type {{ status: string, data: any, error?: string }} */ (await response.json());
    if (status !== 'success') throw new Error(`Prometheus: ${error}`);
    return data;
  };
  await until('Prometheus is ready', async () => {
    if (child.exitCode !== null) throw new Error(`Prometheus exited: ${output}`);
    return fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  });
  return {
    /**
     * Returns the samples of a PromQL expression as text, e.g. `gateway-1: 0`.
     * @param {string} expression
     * @returns {Promise<string[]>}
     */
    async query(expression) {
      const { result } = await ask('query', { query: expression });
      return result.map((/** @type {{ metric: Record<string, string>, value: [number, string] }} */ { metric, value }) =>
        [metric['instance'] ?? metric['provider'] ?? 'all', Number(value[1])].join(': '),
      );
    },
    /** @returns {Promise<FiringAlert[]>} */
    async firing() {
      const { alerts } = await ask('alerts');
      return alerts
        .filter((/** @type {{ state: string }} */ { state }) => state === 'firing')
        .map((/** @type {{ labels: Record<string, string> }} */ { labels }) => ({ alert: labels['alertname'] ?? '', labels }));
    },
    async stop() {
      if (child.exitCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** @typedef {Awaited<ReturnType<typeof startPrometheus>>} Prometheus */
