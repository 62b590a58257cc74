/**
 * A complete deployment on one machine: PostgreSQL, Temporal, HAProxy with the configuration for Compose, two API
 * processes behind it, a worker, vendors and Prometheus.
 */
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { createProcesses } from '../../test/support/gateway-process.ts';
import { ensureHaproxy, startHaproxy } from '../../test/support/haproxy.ts';
import { ensurePostgres } from '../../test/support/postgres-install.ts';
import { startPostgres } from '../../test/support/postgres-server.ts';
import { createScriptedVendor } from '../../test/support/scripted-vendor/server.ts';
import { createTemporalServer } from '../../test/support/temporal-server.ts';
import { until } from '../../test/support/until.ts';
import { unusedPort } from '../../test/support/unused-port.ts';
import { createFickleVendor } from './fickle-vendor.js';
import { startPrometheus } from './prometheus.js';

/** @typedef {'gateway-1' | 'gateway-2' | 'worker'} ProcessName */
/** @typedef {Awaited<ReturnType<typeof startStack>>} Stack */

/** @type {readonly ProcessName[]} */
export const processNames = ['gateway-1', 'gateway-2', 'worker'];
/**
 * A hanging vendor should be noticed within a minute, long before this timeout. The default of five minutes would make
 * the run too long.
 */
const firstByteTimeoutSeconds = 120;
/**
 * On a busy machine a process may be slow, but it should respond within this time. Killed processes refuse the
 * connection right away.
 */
const readinessLimitMs = 10_000;
const readyLimitMs = 600_000;
/** Large enough for the journal's ballast file and two of its segments. */
const smallDisk = '64m';

/**
 * @param {string} steadyUrl
 * @param {string} fickleUrl
 * @param {readonly string[]} providers the providers that get a fault
 */
function configOf(steadyUrl, fickleUrl, providers) {
  const lines = providers.map(
    (name) =>
      `  ${name}: { base_url: ${fickleUrl}/${name}/v1, api_key: any, dialect: chat, first_byte_timeout_ms: ${firstByteTimeoutSeconds * 1_000} }`,
  );
  return `
providers:
  steady: { base_url: ${steadyUrl}/v1, api_key: any, dialect: chat }
${lines.join('\n')}
models:
  steady/echo: { input: 1, output: 4 }
  steady/echo+pace-20+long-10: { input: 1, output: 4 }
${providers.map((name) => `  ${name}/echo+pace-20+long-10: { input: 1, output: 4 }`).join('\n')}
tiers:
  standard: [steady/echo+pace-20+long-10]
  trivial: [steady/echo]
${providers.map((name) => `  ${name}: [${name}/echo+pace-20+long-10, steady/echo]\n  only-${name}: [${name}/echo+pace-20+long-10]`).join('\n')}
memory: { idle_minutes: 0.02, retry: { first_minutes: 0.02, factor: 2, longest_minutes: 1 } }
`;
}

/** @param {{ scale: number, providers: readonly string[] }} options */
export async function startStack({ scale, providers }) {
  const folder = await mkdtemp(join(tmpdir(), 'gateway-faults-'));
  /** @type {(() => Promise<unknown>)[]} */
  const cleanups = [() => rm(folder, { recursive: true, force: true })];
  /** @type {Promise<void> | undefined} */
  let stopped;
  const stop = () => {
    stopped ??= (async () => {
      for (const cleanup of cleanups.toReversed()) await cleanup().catch((error) => console.error(error));
    })();
    return stopped;
  };
  // Stop all started processes on Ctrl-C.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => stop().finally(() => process.exit(1)));
  try {
    const [postgres, temporal, scriptedVendor] = await Promise.all([
      startPostgres(await ensurePostgres(), { keepsCommits: true }),
      createTemporalServer(),
      createScriptedVendor(),
    ]);
    cleanups.push(() => Promise.all([postgres.stop(), temporal.remove(), scriptedVendor.close()]));
    const fickleVendor = await createFickleVendor(scriptedVendor.url);
    cleanups.push(() => fickleVendor.close());
    const disk = join(folder, 'gateway-1');
    await mkdir(disk);
    const canFillDisk = mountDisk(disk);
    if (canFillDisk) cleanups.push(async () => execFileSync('umount', [disk]));
    const processes = createProcesses();
    cleanups.push(() => processes.stopAll());

    const config = join(folder, 'gateway.yaml');
    await writeFile(config, configOf(scriptedVendor.url, fickleVendor.url, providers));
    const admin = new pg.Client({ connectionString: postgres.url });
    await admin.connect();
    await admin.query('create database gateway');
    await admin.end();
    const databaseUrl = Object.assign(new URL(postgres.url), { pathname: '/gateway' }).href;

    /** @type {Map<ProcessName, { url: string, metrics: string }>} */
    const addresses = new Map();
    for (const name of processNames)
      addresses.set(name, { url: `http://127.0.0.1:${await unusedPort()}`, metrics: `127.0.0.1:${await unusedPort()}` });
    /** @param {ProcessName} name */
    const addressOf = (name) => addresses.get(name) ?? { url: '', metrics: '' };
    const home = await processes.home('empty');
    /** @param {ProcessName} name */
    const environmentOf = (name) => ({
      DATABASE_URL: databaseUrl,
      GATEWAY_CONFIG: config,
      GATEWAY_DATA_DIR: join(folder, name),
      PORT: new URL(addressOf(name).url).port,
      GATEWAY_METRICS_ADDRESS: addressOf(name).metrics,
      GATEWAY_TEMPORAL: 'on',
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: 'faults',
      TEMPORAL_CREATE_NAMESPACE: 'true',
      // As in docker-compose.yml, this variable is set but empty, which means the default.
      GATEWAY_STOP_DELAY_SECONDS: '',
    });

    /** @type {Map<ProcessName, import('../../test/support/gateway-process.ts').GatewayProcess>} */
    const running = new Map();
    /** @param {ProcessName} name */
    const processOf = (name) => {
      const found = running.get(name);
      if (!found) throw new Error(`${name} was not started`);
      return found;
    };
    /** @param {ProcessName} name */
    const start = async (name) => {
      const command = name === 'worker' ? 'worker' : 'serve';
      running.set(name, await processes.start(command, { home, env: environmentOf(name) }));
    };
    const migrated = await processes.start('migrate', { home, env: environmentOf('gateway-2') });
    if ((await migrated.exited) !== 0) throw new Error(migrated.stderr());
    await Promise.all(processNames.map(start));

    const env = { GATEWAY_STOP_TIMEOUT_SECONDS: '600' };
    const replicas = Object.fromEntries(
      processNames.filter((name) => name !== 'worker').map((name) => [name, new URL(addressOf(name).url).host]),
    );
    const proxy = await startHaproxy(await ensureHaproxy(), { folder, replicas, env });
    cleanups.push(() => proxy.stop());
    const prometheus = await startPrometheus({
      folder,
      scale,
      targets: {
        gateway: { 'gateway-1': addressOf('gateway-1').metrics, 'gateway-2': addressOf('gateway-2').metrics },
        'gateway-worker': { worker: addressOf('worker').metrics },
      },
    });
    cleanups.push(() => prometheus.stop());

    /** @param {string} project @param {object} [memory] the project's memory settings */
    const createKey = async (project, memory) => {
      const api = processOf('gateway-2');
      await api.admin('PUT', `/provision/teams/${project}`, { cache: { enabled: false } });
      if (memory) await api.admin('PUT', `/provision/teams/${project}/memory`, memory);
      const response = await api.admin('POST', `/provision/teams/${project}/keys`, { name: 'faults', ceilings: { calls: 10_000_000 } });
      return /** @type {{ key: string }} */ (await response.json()).key;
    };
    /** @param {ProcessName} name */
    const readiness = async (name) => {
      try {
        const response = await fetch(`${addressOf(name).url}/readyz`, { signal: AbortSignal.timeout(readinessLimitMs) });
        const { reasons, degraded } = /** @type {{ reasons: string[], degraded: string[] }} */ (await response.json());
        return [String(response.status), [...reasons, ...degraded].join('; ')].join(' ').trim();
      } catch {
        return 'no response';
      }
    };
    return {
      scale,
      folder,
      disk,
      canFillDisk,
      postgres,
      temporal,
      fickleVendor,
      proxyUrl: proxy.url,
      prometheus,
      databaseUrl,
      keys: { calls: await createKey('load'), facts: await createKey('facts', { batch_of: 4, at_least_every_minutes: 1 }) },
      start,
      processOf,
      readiness,
      /** Resolves once all processes are ready and nothing is degraded. */
      async untilReady() {
        /** @type {string[]} */
        let said = [];
        const isReady = async () => {
          said = await Promise.all(processNames.map(async (name) => `${name}: ${await readiness(name)}`));
          return said.every((each) => each.endsWith(': 200'));
        };
        await until('all processes are ready', isReady, readyLimitMs).catch((cause) => {
          throw new Error(`the processes did not become ready: ${said.join(', ')}`, { cause });
        });
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Mounts a small disk. Returns false if the user isn't allowed to do this. @param {string} folder */
function mountDisk(folder) {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false;
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${smallDisk}`, 'tmpfs', folder], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
