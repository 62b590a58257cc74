/**
 * Measures the overhead of the gateway: the same calls directly to the demo vendor and through the gateway, in alternating rounds, so that a slow
 * phase of the machine affects both. Compare the ratio, the added milliseconds and the CPU time, not absolute values: all programs share one
 * machine.
 *
 *   node scripts/benchmark.js [--calls 2000] [--concurrency 16] [--rounds 5] [--only plain|streamed] [--profile folder]
 *
 * With DATABASE_URL the gateway stores the calls there, otherwise in its embedded database, whose CPU time is then part of the gateway's.
 * `--profile` writes a CPU profile of the gateway into the folder.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Agent, request } from 'undici';
import { createKey, createPrograms } from './programs.js';

/** @typedef {'plain' | 'streamed'} Kind */
/** @typedef {{ url: string, key: string, model: string }} Target */
/** @typedef {{ perSecond: number, firstByte: number, p50: number, p99: number }} Round Times in milliseconds. */
/** @typedef {{ vendor: Round, gateway: Round }} Pair */

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '2000' },
    concurrency: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    profile: { type: 'string' },
  },
});
const calls = wholeNumber(values.calls, 100_000);
const concurrency = wholeNumber(values.concurrency, 1_000);
const rounds = wholeNumber(values.rounds, 50);
/** Shared by the whole run: programs and connections. */
const programs = createPrograms();
const agent = new Agent({ connections: concurrency, pipelining: 1 });

const folder = await mkdtemp(join(tmpdir(), 'gateway-benchmark-'));
try {
  const vendor = await programs.start('demo-vendor', {});
  const gateway = await startGateway(vendor.url);
  /** @type {{ vendor: Target, gateway: Target }} */
  const ways = {
    vendor: { url: vendor.url, key: 'any', model: 'echo' },
    gateway: { url: gateway.url, key: await createKey(gateway.url, 'benchmark'), model: 'vendor/echo' },
  };
  for (const kind of kindsOf(values.only)) {
    for (const target of Object.values(ways)) await round(target, kind, Math.min(calls, 1_000)); // Warm-up.
    /** @type {Pair[]} */
    const pairs = [];
    const cpuBefore = await cpuMs(gateway.pid);
    for (let done = 0; done < rounds; done += 1)
      pairs.push({ vendor: await round(ways.vendor, kind, calls), gateway: await round(ways.gateway, kind, calls) });
    report(kind, pairs, ((await cpuMs(gateway.pid)) - cpuBefore) / (rounds * calls));
  }
} finally {
  await programs.stopAll();
  await agent.close();
  await rm(folder, { recursive: true, force: true });
}

/**
 * Starts the gateway with one provider: the vendor of the direct calls.
 * @param {string} vendorUrl
 */
async function startGateway(vendorUrl) {
  const file = join(folder, 'gateway.yaml');
  await writeFile(
    file,
    `providers:\n  vendor: { base_url: ${vendorUrl}/v1, api_key: any, dialect: chat }\nmodels:\n  vendor/echo: { input: 1, output: 2 }\n`,
  );
  return programs.start('start', {
    // Production logs a line per call; the cost of its destination is not the gateway's.
    env: { GATEWAY_CONFIG: file, GATEWAY_DATA_DIR: join(folder, 'data'), LOG_LEVEL: process.env['LOG_LEVEL'] ?? 'info' },
    flags: values.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${resolve(values.profile)}`],
  });
}

/**
 * Runs one round of calls with the same body except for the model.
 * @param {Target} target
 * @param {Kind} kind
 * @param {number} count
 * @returns {Promise<Round>}
 */
async function round({ url, key, model }, kind, count) {
  const messages = [{ role: 'user', content: 'How fast are you today, and why?' }];
  const body = JSON.stringify({ model, stream: kind === 'streamed', messages });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  /** @type {number[]} */
  const times = [];
  /** @type {number[]} */
  const firstBytes = [];
  let left = count;
  const work = async () => {
    while (left > 0) {
      left -= 1;
      const startedAt = performance.now();
      const response = await request(`${url}/v1/chat/completions`, { dispatcher: agent, method: 'POST', headers, body });
      if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}: ${await response.body.text()}`);
      let bytes = 0;
      for await (const chunk of response.body) {
        if (bytes === 0) firstBytes.push(performance.now() - startedAt);
        bytes += chunk.length;
      }
      times.push(performance.now() - startedAt);
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: concurrency }, work));
  const perSecond = (count * 1000) / (performance.now() - startedAt);
  return { perSecond, firstByte: centile(firstBytes, 0.5), p50: centile(times, 0.5), p99: centile(times, 0.99) };
}

/**
 * @param {Kind} kind
 * @param {Pair[]} pairs
 * @param {number} cpuMsPerCall
 */
function report(kind, pairs, cpuMsPerCall) {
  console.log(`\n${rounds} rounds of ${calls} ${kind} calls, ${concurrency} at a time; medians of the rounds`);
  /** @type {(name: string, pick: (row: Round) => number, digits: number) => void} */
  const line = (name, pick, digits) => {
    const [vendor, gateway, ratio] = [
      pairs.map((pair) => pick(pair.vendor)),
      pairs.map((pair) => pick(pair.gateway)),
      pairs.map((pair) => pick(pair.gateway) / pick(pair.vendor)),
    ].map((list) => centile(list, 0.5));
    const columns = [`vendor ${padded(vendor, digits)}`, `gateway ${padded(gateway, digits)}`, `ratio ${padded(ratio, 2)}`];
    console.log(`${name.padEnd(20)} ${columns.join('   ')}`);
  };
  line('calls a second', (row) => row.perSecond, 0);
  line('median ms', (row) => row.p50, 2);
  line('99th centile ms', (row) => row.p99, 2);
  if (kind === 'streamed') line('first byte ms', (row) => row.firstByte, 2);
  if (Number.isFinite(cpuMsPerCall)) console.log(`${'CPU of the gateway'.padEnd(20)} ${(cpuMsPerCall * 1000).toFixed(0)} µs a call`);
}

/**
 * The CPU time of a process so far; NaN on systems other than Linux, which reports hundredths of a second.
 * @param {number} pid
 */
async function cpuMs(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The fields after the program's name, which may hold spaces: user time is the 12th, system time the 13th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/**
 * @param {number[]} list
 * @param {number} part
 */
function centile(list, part) {
  return list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * part))] ?? Number.NaN;
}

/**
 * @param {number | undefined} value
 * @param {number} digits
 */
function padded(value, digits) {
  return (value ?? Number.NaN).toFixed(digits).padStart(9);
}

/**
 * @param {string | undefined} only
 * @returns {Kind[]}
 */
function kindsOf(only) {
  if (only === undefined) return ['plain', 'streamed'];
  if (only === 'plain' || only === 'streamed') return [only];
  throw new Error('--only must be plain or streamed');
}

/**
 * @param {string} text
 * @param {number} max
 */
function wholeNumber(text, max) {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new Error(`${text} is not a positive integer`);
  return Math.min(value, max);
}
