/**
 * Measures other gateways in the same rounds. LiteLLM and Portkey are installed into the cache directory, and any other
 * gateway can be passed by its address. All of them have a minimal setup. LiteLLM runs with one key and no database,
 * and Portkey runs without keys.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ensurePython } from '../../test/support/python.ts';
import { unusedPort } from '../../test/support/unused-port.ts';
import { cacheDirectory } from '../cache.js';
import { runNpm, say } from '../npm.js';

const versions = { litellm: '1.106.2', portkey: '1.15.2' };
const installLimitMs = 15 * 60_000;
const vendors = ['plain', 'stream', 'paced'];
/** LiteLLM requires a master key of this format. */
const litellmKey = 'sk-benchmark';

/** Returns true if the other gateways can run this scenario. @param {import('./scenarios.js').Scenario} scenario */
export function suitsRivals({ route = 'chat', vendor = 'plain', project, grows, headers }) {
  return route === 'chat' && vendors.includes(vendor) && project === undefined && !grows && headers === undefined;
}

/** @param {import('./environment.js').Bench} bench @returns {Promise<import('./measure.js').Target[]>} */
export async function startRivals(bench) {
  return [await startLitellm(bench), await startPortkey(bench)];
}

/**
 * Parses the address of a running gateway. The gateway has to be configured to forward the models `plain/m`, `stream/m`
 * and `paced/m` to `/plain/v1`, `/stream/v1` and `/paced/v1` of our vendor.
 * @param {string} text `name,port,key,pid`
 * @returns {import('./measure.js').Target}
 */
export function parseOther(text) {
  const [name = '', port = '', key = '', pid = ''] = text.split(',');
  if (!name || !/^\d+$/.test(port) || !key || !/^\d+$/.test(pid)) throw new Error('--other: must be name,port,key,pid');
  return { label: name, port: Number(port), pid: Number(pid), keys: sameKey(key), database: null };
}

/** @param {import('./environment.js').Bench} bench @returns {Promise<import('./measure.js').Target>} */
async function startLitellm({ folder, measured, processes, vendorPort }) {
  const home = join(cacheDirectory(), 'rivals', `litellm-${versions.litellm}`);
  await install(home, async () => {
    const python = await ensurePython();
    await promisify(execFile)(python, ['-m', 'venv', home]);
    const limits = { timeout: installLimitMs, maxBuffer: 64 * 1024 * 1024 };
    await promisify(execFile)(join(home, 'bin', 'pip'), ['install', '--quiet', `litellm[proxy]==${versions.litellm}`], limits);
  });
  const models = vendors.map(
    (vendor) =>
      `  - { model_name: ${vendor}/m, litellm_params: { model: openai/m, api_base: "http://127.0.0.1:${vendorPort}/${vendor}/v1", api_key: vendor-key } }`,
  );
  const config = join(folder, 'litellm.yaml');
  await writeFile(config, `model_list:\n${models.join('\n')}\ngeneral_settings: { master_key: ${litellmKey} }\n`);
  const port = await unusedPort();
  const command = [join(home, 'bin', 'litellm'), '--config', config, '--host', '127.0.0.1', '--port', String(port), '--num_workers', '1'];
  const { pid } = await processes.start('litellm', [...measured, ...command], {
    // Without these settings, LiteLLM would download a price list and connect to our database.
    env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR', DATABASE_URL: undefined },
    listens: () => portThatResponds(port, '/health/liveliness'),
  });
  return { label: `LiteLLM ${versions.litellm}`, pid, port, keys: sameKey(litellmKey), database: null };
}

/** @param {import('./environment.js').Bench} bench @returns {Promise<import('./measure.js').Target>} */
async function startPortkey({ measured, processes, vendorPort }) {
  const home = join(cacheDirectory(), 'rivals', `portkey-${versions.portkey}`);
  await install(home, async () => {
    await mkdir(home, { recursive: true });
    await writeFile(
      join(home, 'package.json'),
      JSON.stringify({
        dependencies: { '@portkey-ai/gateway': versions.portkey },
        // With newer versions of this package, Portkey's streams fail with an error about "immutable" headers.
        overrides: { '@hono/node-server': '1.13.8' },
      }),
    );
    await runNpm(['install', '--no-package-lock', '--ignore-scripts'], { cwd: home });
  });
  const port = await unusedPort();
  const file = join(home, 'node_modules', '@portkey-ai', 'gateway', 'build', 'start-server.js');
  const { pid } = await processes.start('portkey', [...measured, process.execPath, file, `--port=${port}`, '--headless'], {
    env: { NODE_ENV: 'production', TRUSTED_CUSTOM_HOSTS: '127.0.0.1' },
    listens: () => portThatResponds(port, '/'),
  });
  return {
    label: `Portkey ${versions.portkey}`,
    pid,
    port,
    keys: sameKey('vendor-key'),
    database: null,
    headersOf: (vendor) => ['x-portkey-provider: openai', `x-portkey-custom-host: http://127.0.0.1:${vendorPort}/${vendor}/v1`],
  };
}

/** @param {string} home @param {() => Promise<void>} work */
async function install(home, work) {
  const done = join(home, 'installed');
  if (existsSync(done)) return;
  say(`installing ${home}`);
  await rm(home, { recursive: true, force: true });
  await work();
  await writeFile(done, '');
}

/** @param {number} port @param {string} path */
async function portThatResponds(port, path) {
  const isUp = await fetch(`http://127.0.0.1:${port}${path}`).then(
    (response) => response.ok,
    () => false,
  );
  if (!isUp) await sleep(200);
  return isUp ? port : null;
}

/** @param {string} key */
function sameKey(key) {
  return { plain: key, memory: key, cache: key, unlimited: key };
}
