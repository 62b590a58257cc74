/**
 * What the gateway costs, measured side by side in one run: the same calls straight to the demo vendor and through the gateway, in
 * alternating rounds, so that a machine that is slow for a while is slow for both. Read the ratio and the added milliseconds, not the
 * absolute figures: all of it, the load too, shares one machine.
 *
 *   node scripts/benchmark.js [--calls 2000] [--concurrency 16] [--rounds 5] [--stream]
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Agent, request } from 'undici';

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '2000' },
    concurrency: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '5' },
    stream: { type: 'boolean', default: false },
  },
});
const calls = Math.min(Number(values.calls), 100_000);
const concurrency = Math.min(Number(values.concurrency), 1_000);
const rounds = Math.min(Number(values.rounds), 50);

const folder = await mkdtemp(join(tmpdir(), 'gateway-benchmark-'));
const children = [];
const agent = new Agent({ connections: concurrency, pipelining: 1 });
try {
  const vendorUrl = await start('demo-vendor', ['--port', '0'], {}, /http:\/\/127\.0\.0\.1:\d+/);
  const token = 'benchmark-admin-token';
  const gatewayUrl = await start(
    'start',
    [],
    {
      PORT: '0',
      GATEWAY_DATA_DIR: folder,
      GATEWAY_TEMPORAL: 'off',
      GATEWAY_ADMIN_TOKEN: token,
      LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
    },
    /http:\/\/127\.0\.0\.1:\d+/,
  );
  const key = await makeKey(gatewayUrl, token);
  const ways = {
    vendor: () => call(`${vendorUrl}/v1/chat/completions`, 'any', 'echo'),
    gateway: () => call(`${gatewayUrl}/v1/chat/completions`, key, 'demo/echo'),
  };
  for (const way of Object.values(ways)) await round(way, Math.min(calls, 500)); // warm-up
  /** @type {{ vendor: Round, gateway: Round }[]} */
  const results = [];
  for (let done = 0; done < rounds; done += 1)
    results.push({ vendor: await round(ways.vendor, calls), gateway: await round(ways.gateway, calls) });
  report(results);
} finally {
  for (const child of children) child.kill('SIGTERM');
  await agent.close();
  await sleep(500);
  await rm(folder, { recursive: true, force: true });
}

/** @typedef {{ perSecond: number, p50: number, p99: number }} Round */

/** Starts a command of the gateway and waits for its address in the output. */
async function start(command, args, env, address) {
  const child = spawn(process.execPath, ['src/main.ts', command, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output = (output + text).slice(0, 10_000);
  });
  for (let waited = 0; waited < 60_000; waited += 50) {
    const found = address.exec(output);
    if (found) return found[0];
    await sleep(50);
  }
  throw new Error(`gateway ${command} did not start`);
}

async function makeKey(url, token) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  await request(`${url}/provision/teams/benchmark`, { method: 'PUT', headers, body: '{}' }).then(({ body }) => body.dump());
  const { body } = await request(`${url}/provision/teams/benchmark/keys`, { method: 'POST', headers, body: '{"name":"benchmark"}' });
  return (await body.json()).key;
}

async function call(url, key, model) {
  const { statusCode, body } = await request(url, {
    dispatcher: agent,
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: values.stream, messages: [{ role: 'user', content: 'How fast are you today, and why?' }] }),
  });
  await body.arrayBuffer();
  if (statusCode !== 200) throw new Error(`answered ${statusCode}`);
}

/** @returns {Promise<Round>} */
async function round(way, count) {
  const times = [];
  let left = count;
  const startedAt = performance.now();
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const from = performance.now();
      await way();
      times.push(performance.now() - from);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  const perSecond = (count * 1000) / (performance.now() - startedAt);
  times.sort((a, b) => a - b);
  return { perSecond, p50: times[Math.floor(count * 0.5)], p99: times[Math.floor(count * 0.99)] };
}

/** @param {{ vendor: Round, gateway: Round }[]} results */
function report(results) {
  const median = (pick) => results.map(pick).sort((a, b) => a - b)[Math.floor(results.length / 2)];
  const line = (name, pick, digits) => {
    const [vendor, gateway, ratio] = [
      median((row) => pick(row.vendor)),
      median((row) => pick(row.gateway)),
      median((row) => pick(row.gateway) / pick(row.vendor)),
    ];
    console.log(
      `${name.padEnd(16)} vendor ${vendor.toFixed(digits).padStart(9)}   gateway ${gateway.toFixed(digits).padStart(9)}   ratio ${ratio.toFixed(2)}`,
    );
  };
  console.log(
    `${rounds} rounds of ${calls} ${values.stream ? 'streamed' : 'plain'} calls, ${concurrency} at a time; medians of the rounds`,
  );
  line('calls a second', (row) => row.perSecond, 0);
  line('median ms', (row) => row.p50, 2);
  line('99th centile ms', (row) => row.p99, 2);
}
