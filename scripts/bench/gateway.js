/**
 * Starts the gateway of a checkout. It runs `serve` with PostgreSQL and without Temporal, and has the projects and keys
 * that the scenarios need.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import { gatewayConfig } from './scenarios.js';

const adminToken = 'token-for-measurements';
const ceilings = { calls: 1_000_000_000, cost: 1_000_000, rpm: 100_000_000, tpm: 1_000_000_000_000 };
const memories = 1_000;

/**
 * Returns the flags that a checkout's image passes to Node, so that each checkout runs as it would in production.
 * @param {string} checkout
 * @returns {string[]}
 */
export function imageFlags(checkout) {
  const entrypoint = /^ENTRYPOINT (\[.*\])$/m.exec(readFileSync(join(checkout, 'Dockerfile'), 'utf8'))?.[1] ?? '[]';
  return JSON.parse(entrypoint).filter((/** @type {string} */ argument) => argument.startsWith('--'));
}

const projects = {
  plain: { settings: { cache: { enabled: false } }, memory: false, ceilings },
  memory: { settings: { cache: { enabled: false } }, memory: true, ceilings },
  cache: { settings: { cache: { enabled: true, ttl_seconds: 86_400 } }, memory: false, ceilings },
  unlimited: { settings: { cache: { enabled: false } }, memory: false, ceilings: {} },
};

/**
 * @typedef {object} Gateway
 * @property {import('./processes.js').Program} program
 * @property {Record<keyof typeof projects, string>} keys
 * @property {(count?: number) => Promise<void>} addMemories
 * @property {(ceilings: object) => Promise<string>} createKey
 * @property {(project: string, ceilings: object) => Promise<string>} createKeyOf
 * @property {(method: string, path: string, body: object) => Promise<any>} admin
 * @property {string} adminToken
 */

/**
 * @param {object} options
 * @param {string} options.name
 * @param {string} options.checkout
 * @param {ReturnType<typeof import('./processes.js').createProcesses>} options.processes
 * @param {string[]} options.prefix goes before the command, e.g. to pin it to a core
 * @param {string} options.databaseUrl an empty database
 * @param {number} options.vendorPort
 * @param {string} options.folder
 * @param {number} [options.workers]
 * @param {string[]} [options.flags] flags for Node
 * @param {Record<string, string>} [options.env] additional environment variables
 * @returns {Promise<Gateway>}
 */
export async function startGateway({
  name,
  checkout,
  processes,
  prefix,
  databaseUrl,
  vendorPort,
  folder,
  workers = 1,
  flags = [],
  env: more = {},
}) {
  const home = join(folder, name.replaceAll(/[^\w-]/g, '-'));
  await mkdir(home, { recursive: true });
  await writeFile(join(home, 'gateway.yaml'), gatewayConfig(vendorPort));
  const env = {
    HOST: '127.0.0.1',
    PORT: '0',
    DATABASE_URL: databaseUrl,
    GATEWAY_TEMPORAL: 'off',
    GATEWAY_LOCAL_EMBEDDER: 'off',
    GATEWAY_STOP_DELAY_SECONDS: '0',
    GATEWAY_ADMIN_TOKEN: adminToken,
    GATEWAY_CONFIG: join(home, 'gateway.yaml'),
    GATEWAY_DATA_DIR: join(home, 'data'),
    // Older checkouts don't know GATEWAY_API_PROCESSES.
    GATEWAY_WORKERS: String(workers),
    LOG_LEVEL: process.env['LOG_LEVEL'] ?? 'info',
    // Share the compile cache with `npm start`.
    NODE_COMPILE_CACHE: join(checkout, 'node_modules', '.cache', 'model-gateway', 'compiled'),
    ...more,
  };
  const main = join(checkout, 'src', 'main.ts');
  await promisify(execFile)(process.execPath, [main, 'migrate'], { cwd: checkout, env: { ...process.env, ...env } });
  const command = [...prefix, process.execPath, ...imageFlags(checkout), ...flags, main, 'serve'];
  const program = await processes.start(name, command, { cwd: checkout, env });

  /** @type {(method: string, path: string, token: string, body: object) => Promise<any>} */
  const send = async (method, path, token, body) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(`http://127.0.0.1:${program.port}${path}`, { method, headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${name}: ${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  };
  /** @param {string} project @param {object} limits @returns {Promise<string>} */
  const createKey = async (project, limits) =>
    (await send('POST', `/provision/teams/${project}/keys`, adminToken, { name: 'measured', ceilings: limits })).key;

  const keys = /** @type {Gateway['keys']} */ ({});
  for (const [project, { settings, memory, ceilings: limits }] of Object.entries(projects)) {
    await send('PUT', `/provision/teams/${project}`, adminToken, settings);
    await send('PUT', `/provision/teams/${project}/memory`, adminToken, { enabled: memory });
    keys[/** @type {keyof typeof projects} */ (project)] = await createKey(project, limits);
  }
  return {
    program,
    keys,
    createKey: (limits) => createKey('plain', limits),
    createKeyOf: createKey,
    admin: (method, path, body) => send(method, path, adminToken, body),
    adminToken,
    async addMemories(count = memories) {
      for (let number = 0; number < count; number += 1)
        await send('POST', '/v1/memory/items', keys.memory, {
          text: `Fact ${number}: the ${names[number % names.length]} of plan ${number} is ready.`,
        });
    },
  };
}

const names = ['report', 'answer', 'paragraph', 'question', 'reason', 'ordinary term'];
