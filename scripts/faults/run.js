/** Causes one fault after another under a steady load, and reports what callers and operators noticed. */
import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { until } from '../../test/support/until.ts';
import { readArguments } from '../arguments.js';
import { BootstrapError } from '../npm.js';
import { kinds, providers } from './kinds.js';
import { startLoad } from './load.js';
import { startStack } from './stack.js';
import { watchSigns } from './watch.js';

/** @typedef {import('./watch.js').Sign} Sign */

/**
 * @typedef {object} Row
 * @property {string} kind
 * @property {number} seconds how long the fault lasted
 * @property {number} calls
 * @property {Record<string, number>} failed number of failed calls by what their callers saw
 * @property {string[]} lost task ids of answered calls that weren't stored as answered, and facts that weren't learned
 * @property {string[]} doubled
 * @property {number} facts
 * @property {import('./watch.js').Signs} signs
 * @property {Sign[]} others
 * @property {string[]} broken promises that weren't kept
 */

/** How long the load runs before and after each fault, so that the gateway learns how fast the vendors usually are. */
const quietSeconds = 15;
/** The slowest alert fires after 15 minutes, so wait a bit longer than that. */
const longestAlertSeconds = 1_100;
/**
 * Alerts fire sooner in a scaled run, but other signs of a fault don't, e.g. connections that are closed after a fixed
 * timeout. We allow this much extra time for them.
 */
const otherSignsSeconds = 150;
const storedLimitMs = 180_000;
/** How long a process can be down before the alert GatewayDown fires in production (deploy/prometheus/alerts.yaml). */
const gatewayDownSeconds = 120;

/** @param {string[]} args the command-line arguments */
export async function runFaults(args) {
  const options = parseOptions(args);
  /** @type {Row[]} */
  const rows = [];
  const stack = await startStack({ scale: options.scale, providers });
  const database = new pg.Pool({ connectionString: stack.databaseUrl, max: 1 });
  // Ignore errors of an idle connection when PostgreSQL is killed. They aren't part of a query, so they'd crash this
  // process.
  database.on('error', () => undefined);
  try {
    console.log(`${cpus()[0]?.model}, ${cpus().length} processors, Node ${process.versions.node}`);
    for (const names of groupKinds(options.names)) {
      const measured = await Promise.all(names.map((name) => measure(name, { stack, database, ...options })));
      rows.push(...measured);
      for (const row of measured) console.log(describe(row));
    }
  } finally {
    await database.end();
    await stack.stop();
    // Print the rows even after a failure, because measuring them took minutes.
    if (rows.length > 0) console.log(formatTable(rows, options.scale));
    if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(rows, null, 2)}\n`);
  }
  if (rows.some(({ broken }) => broken.length > 0)) process.exitCode = 1;
}

/**
 * Groups the faults that we can cause at the same time. Only vendor faults can be combined, because each of them
 * affects a different provider.
 * @param {string[]} names
 */
function groupKinds(names) {
  const ofVendors = names.filter((name) => kinds[name]?.provider);
  return [...names.filter((name) => !kinds[name]?.provider).map((name) => [name]), ...(ofVendors.length > 0 ? [ofVendors] : [])];
}

/**
 * @param {string} name
 * @param {{ stack: import('./stack.js').Stack, database: pg.Pool, scale: number, streamSeconds: number }} context
 * @returns {Promise<Row>}
 */
async function measure(name, { stack, database, scale, streamSeconds }) {
  const kind = kinds[name];
  if (!kind) throw new Error(`unknown kind: ${name}`);
  if (name === 'disk-full' && !stack.canFillDisk) throw new BootstrapError('disk-full needs Linux and root, to mount a small disk');
  await stack.untilReady();
  const load = startLoad({ url: stack.proxyUrl, key: stack.keys.calls, factsKey: stack.keys.facts, name, model: kind.model ?? 'standard' });
  await sleep(quietSeconds * 1_000);
  const watch = watchSigns(stack, { ...kind.expected, ...(kind.provider && { provider: kind.provider }) });
  await watch.begin();
  const beganAt = performance.now();
  const extra = await kind.begin(stack, { streamSeconds });
  const limitSeconds = longestAlertSeconds / scale + otherSignsSeconds;
  while (watch.missing().length > 0 && watch.seconds() < limitSeconds) await sleep(250);
  const seconds = watch.seconds();
  await kind.end(stack);
  await stack.untilReady();
  await sleep(quietSeconds * 1_000);
  await watch.stop();
  await load.stop();
  const extraFailures = (await Promise.all(extra?.calls ?? [])).filter((failure) => failure !== null);

  const failedCalls = load.calls.filter(({ failure }) => failure !== null);
  const answered = load.calls.filter(({ failure }) => failure === null).map(({ taskId }) => taskId);
  for (const index of (extra?.calls ?? []).keys()) if (extraFailures.length === 0) answered.push(`${name}-long-${index}`);
  const { lost, doubled } = await compareWithDatabase(database, name, answered, load.facts);
  /** @type {Record<string, number>} */
  const failed = {};
  for (const failure of [...failedCalls.map((call) => call.failure ?? ''), ...extraFailures]) failed[failure] = (failed[failure] ?? 0) + 1;
  const broken = watch.missing().map((sign) => `nothing seen in ${sign}`);
  if (!kind.isKept(failedCalls, beganAt) || extraFailures.length > 0) broken.push(`failed calls: ${kind.promise}`);
  if (lost.length > 0) broken.push(`${lost.length} lost`);
  if (doubled.length > 0) broken.push(`${doubled.length} doubled`);
  if (kind.expected.alert === null) {
    // The waiting times of the alert rules are scaled, but the time that a process needs to start isn't. So ignore
    // GatewayDown if it wouldn't have fired in production.
    const isTooEarly = (/** @type {string} */ text) =>
      scale > 1 && text.startsWith('alert GatewayDown') && (extra?.downSeconds ?? 0) < gatewayDownSeconds;
    const alerts = [...watch.others.values()].filter(({ text }) => /^alert .*critical/.test(text) && !isTooEarly(text));
    broken.push(...alerts.map(({ text }) => text));
  }
  return {
    kind: name,
    seconds,
    calls: load.calls.length + (extra?.calls.length ?? 0),
    failed,
    lost,
    doubled,
    facts: load.facts.length,
    signs: watch.signs,
    others: [...watch.others.values()],
    broken,
  };
}

/**
 * Waits until all answered calls are stored and all facts are learned. Returns those that are still missing when the
 * time is up, and everything that was stored twice.
 * @param {pg.Pool} database
 * @param {string} name
 * @param {string[]} answered
 * @param {string[]} facts
 */
async function compareWithDatabase(database, name, answered, facts) {
  /** @type {string[]} */
  let lost = [];
  /** @type {string[]} */
  let doubled = [];
  const compare = async () => {
    const calls = await database.query(`select task_id, outcome from calls where task_id like $1`, [`${name}-%`]);
    const items = await database.query(`select text from memory_items where text like $1`, [`%of ${name} in shed%`]);
    const stored = new Set(calls.rows.filter(({ outcome }) => outcome === 'ok').map((row) => row.task_id));
    const learned = new Set(items.rows.map(({ text }) => text));
    lost = [...answered.filter((taskId) => !stored.has(taskId)), ...facts.filter((fact) => !learned.has(fact))];
    doubled = [...findDoubled(calls.rows.map((row) => row.task_id)), ...findDoubled(items.rows.map(({ text }) => text))];
    return lost.length === 0;
  };
  await until('all calls are stored and all facts are learned', compare, storedLimitMs).catch(() => undefined);
  return { lost, doubled };
}

/** @param {string[]} values */
export function findDoubled(values) {
  const seen = new Set();
  return values.filter((value) => seen.size === seen.add(value).size);
}

/** @param {Row} row */
function describe({ kind, calls, failed, lost, doubled, signs, others, broken }) {
  const failures = Object.entries(failed).map(([failure, count]) => `${count} x ${failure}`);
  const seen = Object.entries(signs).map(([name, sign]) => `${name} ${sign ? `${sign.seconds.toFixed(1)} s: ${sign.text}` : '-'}`);
  const lines = [
    `${kind}: ${broken.length === 0 ? 'ok' : `BROKEN (${broken.join('; ')})`}`,
    `${calls} calls, failed: ${failures.join(', ') || 'none'}, lost ${lost.length}, doubled ${doubled.length}`,
    ...seen,
    ...others.map(({ seconds, text }) => `also ${seconds.toFixed(1)} s: ${text}`),
  ];
  return lines.join('\n  ');
}

/** @param {Row[]} rows @param {number} scale */
export function formatTable(rows, scale) {
  const heading = ['Fault', 'Calls', 'Failed', 'Lost', 'Doubled', '`/readyz`', 'Metric', 'Alert', 'Log'];
  /** @param {Sign | null} sign */
  const cell = (sign) => (sign ? `${sign.seconds.toFixed(0)} s: ${sign.text.replaceAll('|', '\\|')}` : '');
  const lines = rows.map(({ kind, calls, failed, lost, doubled, signs }) => {
    const failures = Object.entries(failed).map(([failure, count]) => `${count} × ${failure}`);
    const { readyz, metric, alert, log } = signs;
    const [title, counted] = [kinds[kind]?.title ?? kind, failures.join(', ') || '0'];
    return [title, String(calls), counted, String(lost.length), String(doubled.length), ...[readyz, metric, alert, log].map(cell)];
  });
  const note = scale === 1 ? '' : `\nPrometheus and its rules ran ${scale} times as fast as in production.\n`;
  return `${note}\n${[heading, heading.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')}`;
}

/** @param {string[]} args */
function parseOptions(args) {
  const { values, positionals } = readArguments({
    args,
    allowPositionals: true,
    options: {
      scale: { type: 'string', default: '10' },
      'stream-seconds': { type: 'string', default: '480' },
      json: { type: 'string' },
    },
  });
  const known = Object.keys(kinds);
  const names = positionals.length > 0 ? positionals : known;
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new BootstrapError(`no such fault: ${unknown.join(', ')}; there are ${known.join(', ')}`);
  const [scale, streamSeconds] = [Number(values.scale), Number(values['stream-seconds'])];
  if (!(scale >= 1)) throw new BootstrapError('--scale: must be a number of at least 1');
  if (!(streamSeconds >= 1)) throw new BootstrapError('--stream-seconds: must be a number of at least 1');
  return { names, scale, streamSeconds, json: values.json };
}
