/**
 * Runs a mixed load for a long time and measures how much memory stays in use. It starts one service and the scripted
 * vendor, and makes every kind of call (soak-calls.js) with several projects and keys. After each round, it waits until
 * the service is idle, collects its garbage, and prints the memory that is left. It fails if memory grows with the
 * number of calls, if a call gets an unexpected response, or if a call isn't stored and counted exactly once.
 *
 *   npm run soak -- [--minutes 10] [--rounds 20] [--calls 0] [--concurrency 8]
 *
 * With `--calls`, each round ends after that many calls instead of after its share of the minutes. Calls are stored in
 * the database at DATABASE_URL if it's set, otherwise in the embedded database.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Agent, request } from 'undici';
import {
  eachCallIsCountedOnce,
  eachCallIsStoredOnce,
  reservationsAreNotNegative,
  useIsWithinCeiling,
} from '../test/simulation/invariants.ts';
import { createScriptedVendor } from '../test/support/scripted-vendor/server.ts';
import { growthOf, isLeak, openInspector } from './heap.js';
import { adminToken, createKey, createPrograms } from './programs.js';
import { kinds, makeCall, soakConfig } from './soak-calls.js';

/**
 * These ceilings are too high to deny a call. At the end, we check that the service has counted as many calls as we've
 * made.
 */
const ceilings = { calls: 1_000_000, rpm: 100_000, tpm: 1_000_000_000 };
const projects = ['north', 'south', 'west'];

/** The size of the largest page that the service returns. */
const pageSize = 1_000;

/** After a round, calls may still be in the journal. The service has this long to store them. */
const idleLimitMs = 60_000;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '20' },
    calls: { type: 'string', default: '0' },
    concurrency: { type: 'string', default: '8' },
  },
});
const [minutes, rounds, callsPerRound, concurrency] = [values.minutes, values.rounds, values.calls, values.concurrency].map(Number);

const programs = createPrograms();
const folder = await mkdtemp(join(tmpdir(), 'gateway-soak-'));
const vendor = await createScriptedVendor();
const dispatcher = new Agent({ connections: 2 * (concurrency ?? 8) });
try {
  const config = join(folder, 'gateway.yaml');
  await writeFile(config, soakConfig(vendor.url));
  const gateway = await programs.start('start', {
    env: { GATEWAY_CONFIG: config, GATEWAY_DATA_DIR: join(folder, 'data'), LOG_LEVEL: 'silent' },
    flags: ['--inspect=127.0.0.1:0'],
  });
  const inspector = await openInspector(gateway.stderr());
  const keys = await Promise.all([...projects, ...projects].map((project) => createKey(gateway.url, project, {}, { ceilings })));
  await soak(gateway.url, keys, inspector.measure).finally(inspector.close);
} finally {
  await programs.stopAll();
  await vendor.close();
  await dispatcher.close();
  await rm(folder, { recursive: true, force: true });
}

/**
 * @param {string} url
 * @param {string[]} keys
 * @param {() => Promise<{ heapBytes: number, bufferBytes: number }>} measure
 */
async function soak(url, keys, measure) {
  /** @type {import('./heap.js').Measure[]} */
  const measures = [];
  const names = Object.keys(kinds);
  const readNew = createCallReader(url);
  let calls = 0;
  for (let round = 1; round <= (rounds ?? 0); round += 1) {
    const endAt = performance.now() + ((minutes ?? 0) * 60_000) / (rounds ?? 1);
    const lastCall = calls + (callsPerRound ?? 0);
    const goesOn = () => (callsPerRound ? calls < lastCall : performance.now() < endAt);
    /** @type {string[]} */
    const succeeded = [];
    const work = async () => {
      while (goesOn()) {
        calls += 1;
        const name = names[calls % names.length] ?? '';
        const kind = kinds[name];
        const key = kind?.stranger ? `sk-gw-aaaaaaaa-${'x'.repeat(43)}` : keys[calls % keys.length];
        const id = kind && key ? await makeCall({ url, key, name, kind, fresh: round % 4 !== 0, dispatcher }) : null;
        if (id) succeeded.push(id);
      }
    };
    await Promise.all(Array.from({ length: concurrency ?? 8 }, work));
    await untilIdle(url, keys);
    const { ids, vendorCalls } = await readNew();
    eachCallIsStoredOnce(succeeded, ids);
    for (const key of keys) await checkCeilings(url, key, vendorCalls);
    const left = { calls, ...(await measure()) };
    measures.push(left);
    console.log(`round ${round}: ${calls} calls, heap ${mebibytes(left.heapBytes)}, buffers ${mebibytes(left.bufferBytes)}`);
  }
  const growth = [growthOf(measures, 'heapBytes'), growthOf(measures, 'bufferBytes')];
  const [heap, buffers] = growth.map(({ bytes, calls: more }) => `${(bytes / more).toFixed(0)} bytes`);
  console.log(`each call left ${heap} of heap and ${buffers} of buffers`);
  if (growth.some(isLeak)) {
    console.log("the service's memory grows with the number of calls");
    process.exitCode = 1;
  }
}

/**
 * Returns a function that reads the calls which have been stored since it last ran. Meanwhile, `vendorCalls` counts all
 * calls that have reached a vendor, by the prefix of their key.
 * @param {string} url
 */
function createCallReader(url) {
  /** @type {Map<string, string>} */
  const newest = new Map();
  /** @type {Map<string, number>} */
  const vendorCalls = new Map();
  return async () => {
    /** @type {string[]} */
    const ids = [];
    for (const project of projects) {
      const last = newest.get(project) ?? '';
      for (let before = ''; ; ) {
        const page = await readCalls(url, project, before);
        const added = page.filter(({ id }) => id > last);
        for (const { id, key, cache, attempts } of added) {
          ids.push(id);
          if (id > (newest.get(project) ?? '')) newest.set(project, id);
          const hasReached = cache !== 'hit' && attempts.some(({ outcome, status }) => outcome !== 'refused' || status !== null);
          if (hasReached) vendorCalls.set(key, (vendorCalls.get(key) ?? 0) + 1);
        }
        if (added.length < pageSize) break;
        before = `&before=${added.at(-1)?.id}`;
      }
    }
    return { ids, vendorCalls };
  };
}

/** @typedef {{ id: string, key: string, cache: string | null, attempts: { outcome: string, status: number | null }[] }} StoredCall */

/**
 * @param {string} url
 * @param {string} project
 * @param {string} before
 */
async function readCalls(url, project, before) {
  const headers = { authorization: `Bearer ${adminToken}` };
  const { body } = await request(`${url}/provision/teams/${project}/calls?limit=${pageSize}${before}`, { headers, dispatcher });
  return /** @type {{ data: StoredCall[] }} */ (await body.json()).data;
}

/**
 * Throws if the counters of a key don't agree with the calls that it made.
 * @param {string} url
 * @param {string} key
 * @param {ReadonlyMap<string, number>} vendorCalls
 */
async function checkCeilings(url, key, vendorCalls) {
  const { body } = await request(`${url}/status/peek`, { headers: { authorization: `Bearer ${key}` }, dispatcher });
  const status = /** @type {{ key: { ceilings: Record<string, { limit: number, used: number, reserved: number }> } }} */ (
    await body.json()
  );
  for (const name of Object.keys(ceilings)) {
    const ceiling = status.key.ceilings[name];
    if (!ceiling) throw new Error(`the key has no ceiling named ${name}`);
    reservationsAreNotNegative({ name, reserved: ceiling.reserved });
    useIsWithinCeiling({ name, limit: ceiling.limit, settled: ceiling.used, reserved: ceiling.reserved, excess: 0 });
    if (ceiling.reserved > 0) throw new Error(`${name}: ${ceiling.reserved} reserved although no call is running`);
    const prefix = key.split('-')[2] ?? '';
    if (name === 'calls') eachCallIsCountedOnce({ name: `${prefix} ${name}`, settled: ceiling.used, usage: vendorCalls.get(prefix) ?? 0 });
  }
}

/**
 * Waits until all calls have been stored. A request for the usage waits for them, but only for a second. So send it
 * again until the result no longer changes.
 * @param {string} url
 * @param {string[]} keys
 */
async function untilIdle(url, keys) {
  let before = '';
  for (const limitAt = performance.now() + idleLimitMs; performance.now() < limitAt; await sleep(500)) {
    const usages = await Promise.all(
      keys.map(async (key) => {
        const { body } = await request(`${url}/usage/me`, { headers: { authorization: `Bearer ${key}` }, dispatcher });
        return body.text();
      }),
    );
    const now = usages.join();
    if (now === before) return;
    before = now;
  }
  throw new Error('the service did not become idle in time');
}

/** @param {number} bytes */
function mebibytes(bytes) {
  return `${(bytes / 1_048_576).toFixed(2)} MiB`;
}
