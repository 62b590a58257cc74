/**
 * Runs the services of docker-compose.yml without a container engine. We start the same programs with the commands,
 * environments, mounts and health checks from that file and from the Dockerfile. We only replace host names, ports and
 * paths.
 *
 * PostgreSQL checks passwords, and is set up by the script that Compose mounts. The Temporal server and the vendor are
 * the ones that all tests use.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { type ComposeFile, composeSecrets, observabilitySecrets, readCompose, serviceOf } from './compose.ts';
import { readDockerfile } from './dockerfile.ts';
import { copyTestBundle } from './gateway.ts';
import { createProcesses, type GatewayProcess, root, type TestProcesses } from './gateway-process.ts';
import { type Haproxy, startHaproxy } from './haproxy.ts';
import { buildImageTree } from './image-tree.ts';
import { postgresPrograms, startOwnPostgres } from './own-postgres.ts';
import type { PostgresServer } from './postgres-server.ts';
import { run } from './run.ts';
import type { ScriptedVendor } from './scripted-vendor/server.ts';
import { createScriptedVendor } from './scripted-vendor/server.ts';
import { ensureTemporal } from './temporal-program.ts';
import { createTemporalServer, type TemporalServer } from './temporal-server.ts';
import { unusedPort } from './unused-port.ts';

export interface ComposeRun {
  readonly compose: ComposeFile;
  /** Returns the superuser's connection string for a database. */
  superuserUrl(database: string): string;
  /** Runs a statement as the superuser. */
  query(statement: string, values?: readonly unknown[], database?: string): Promise<Record<string, unknown>[]>;
  /** The connection string of the gateway's processes. */
  readonly databaseUrl: string;
  /** Runs a service until it ends, and returns its output. */
  runJob(service: 'migrate' | 'temporal-namespace' | 'grafana-role'): Promise<string>;
  /** Starts a service. After it has ended, you can start it again with the same volumes. */
  start(service: string): Promise<void>;
  /** Returns the process of a service that was started. */
  processOf(service: string): GatewayProcess;
  /** Sends SIGTERM to all services that run, and returns their exit statuses. */
  stop(): Promise<Readonly<Record<string, number | string>>>;
  /** Returns the working directory, environment, data directory and program of a service. */
  containerOf(service: string): Promise<Container>;
  /** Deletes everything in a service's volume. */
  emptyVolume(service: string): Promise<void>;
  /** Returns the URL where Prometheus scrapes the metrics of a service. */
  metricsUrl(service: string): Promise<string>;
  /** Runs the health check of a service. Rejects if it fails. */
  checkHealth(service: string): Promise<void>;
  startProxy(program: string): Promise<Haproxy>;
  stopAll(): Promise<void>;
}

/** The variables that an operator would put into .env, except that the timeouts are shorter. */
const variables = {
  ...{ ...composeSecrets, ...observabilitySecrets, GATEWAY_CONFIG: '/config/gateway.yaml' },
  ...{ GATEWAY_STOP_DELAY_SECONDS: '1', GATEWAY_STOP_TIMEOUT_SECONDS: '30' },
};

const yamlOf = (vendor: ScriptedVendor): string => `
providers: { one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat } }
tiers: { standard: [one/echo] }
`;

export async function createComposeRun(): Promise<ComposeRun> {
  const compose = readCompose(variables);
  const image = readDockerfile();
  const processes = createProcesses();
  const [postgres, temporal, vendor] = await Promise.all([startOwnPostgres(), createTemporalServer(), createScriptedVendor()]);
  await prepareDatabases(compose, postgres);
  const folder = await processes.home('empty');
  const tree = await buildImageTree(join(folder, 'image'));
  const hosts = new Map([
    ['postgres:5432', new URL(postgres.url).host],
    ['temporal:7233', temporal.address],
  ]);
  const replaceHosts = (text: string): string => [...hosts].reduce((result, [name, host]) => result.replaceAll(name, host), text);
  const homes = new Map<string, Promise<Container>>();
  const running = new Map<string, GatewayProcess>();
  const containerOf = (name: string): Promise<Container> => {
    const container = homes.get(name) ?? createContainer(name);
    homes.set(name, container);
    return container;
  };

  async function createContainer(name: string): Promise<Container> {
    const home = await processes.home('empty');
    const { environment = {}, volumes = [] } = serviceOf(compose, name);
    const mounts = new Map(volumes.map((volume) => volume.split(':') as [string, string]).map(([source, target]) => [target, source]));
    const config = join(home, mounts.has('/config') ? 'config' : 'not-mounted');
    await mkdir(config);
    await writeFile(join(config, 'gateway.yaml'), yamlOf(vendor));
    const data = join(folder, mounts.get('/data') ?? `${name}-without-a-volume`);
    await mkdir(data, { recursive: true });
    // Copy the workflow bundle too, because the image also contains one.
    await copyTestBundle(data);
    const env = Object.fromEntries(
      Object.entries({ ...image.env, ...environment }).map(([key, value]) => [key, replaceHosts(String(value ?? ''))]),
    );
    const own = {
      HOST: '127.0.0.1',
      PORT: String(await unusedPort()),
      GATEWAY_METRICS_ADDRESS: `127.0.0.1:${await unusedPort()}`,
      GATEWAY_DATA_DIR: data,
      GATEWAY_CONFIG: env.GATEWAY_CONFIG?.replace('/config/', `${join(home, 'config')}/`) ?? '',
      ...tree.compileCache,
      // We'd otherwise have to load the model in three processes.
      GATEWAY_LOCAL_EMBEDDER: 'off',
    };
    return { workdir: tree.workdir, data, home, env: { ...withoutTestDefaults, PATH: tree.path, ...env, ...own } };
  }

  const programOf = (name: string): string[] => {
    const [node, ...args] = [...image.entrypoint, ...(serviceOf(compose, name).command ?? [])];
    if (node !== 'node') throw new Error(`the image runs ${node}`);
    return [process.execPath, ...args];
  };

  const superuserUrl = (database: string): string => Object.assign(new URL(postgres.url), { pathname: `/${database}` }).href;
  return {
    compose,
    superuserUrl,
    async query(statement, values = [], database = 'gateway') {
      const client = new pg.Client({ connectionString: superuserUrl(database) });
      await client.connect();
      const { rows } = await client.query(statement, [...values]).finally(() => client.end());
      return rows;
    },
    databaseUrl: replaceHosts(String(serviceOf(compose, 'migrate').environment?.DATABASE_URL)),
    async runJob(name) {
      const { command = [], entrypoint, environment = {}, volumes = [] } = serviceOf(compose, name);
      if (!entrypoint) {
        const { workdir, env } = await containerOf(name);
        const [file = '', ...args] = programOf(name);
        return run(file, args, { cwd: workdir, env });
      }
      const [file = '', ...args] = [...entrypoint, ...command];
      const mounted = volumes.find((volume) => volume.includes(`:${file}:`))?.split(':')[0];
      const programs = [await postgresPrograms(), dirname(await ensureTemporal()), '/usr/bin', '/bin'];
      const env = Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, replaceHosts(String(value))]));
      const { hostname, port } = new URL(postgres.url);
      const address = env.PGHOST === 'postgres' ? { PGHOST: hostname, PGPORT: port } : {};
      return run(mounted ? join(root, mounted) : file, args, { env: { PATH: programs.join(':'), HOME: folder, ...env, ...address } });
    },
    async start(name) {
      const { workdir, env } = await containerOf(name);
      const started = await processes.start(name, { home: workdir, env, program: programOf(name) });
      if (started.stderr() !== '') throw new Error(`${name} wrote to standard error: ${started.stderr()}`);
      running.set(name, started);
    },
    processOf(name) {
      const started = running.get(name);
      if (!started) throw new Error(`${name} was not started`);
      return started;
    },
    async stop() {
      const ended = [...running].map(async ([name, started]) => [name, await started.end('SIGTERM')] as const);
      running.clear();
      return Object.fromEntries(await Promise.all(ended));
    },
    containerOf,
    async emptyVolume(name) {
      const { data } = await containerOf(name);
      await rm(data, { recursive: true });
      await mkdir(data);
      await copyTestBundle(data);
    },
    metricsUrl: async (name) => `http://${(await containerOf(name)).env.GATEWAY_METRICS_ADDRESS}/metrics`,
    async checkHealth(name) {
      const [kind, program = '', ...args] = serviceOf(compose, name).healthcheck?.test ?? [];
      if (kind !== 'CMD') throw new Error(`the health check of ${name} is ${kind}`);
      if (name === 'postgres') {
        await run(join(await postgresPrograms(), program), args, { env: { PGPORT: new URL(postgres.url).port } });
        return;
      }
      if (program !== 'node') throw new Error(`the health check of ${name} runs ${program}`);
      const { workdir, env } = await containerOf(name);
      await run(process.execPath, args, { cwd: workdir, env });
    },
    async startProxy(program) {
      const replicas = Object.keys(compose.services).filter((name) => name.startsWith('gateway-'));
      const addresses = await Promise.all(replicas.map(async (name) => [name, `127.0.0.1:${(await containerOf(name)).env.PORT}`] as const));
      const { environment = {} } = serviceOf(compose, 'proxy');
      const env = Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, String(value)]));
      return startHaproxy(program, { folder, replicas: Object.fromEntries(addresses), env });
    },
    stopAll: () => stopAll({ processes, postgres, temporal, vendor }),
  };
}

export interface Container {
  /** Where this container has its `/gateway`. */
  readonly workdir: string;
  /** Where it has its `/data`. */
  readonly data: string;
  /** Where it has its `/config`. */
  readonly home: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Unsets the variables that `createProcesses` sets for other tests. */
const withoutTestDefaults = { GATEWAY_TEMPORAL: '', GATEWAY_ADMIN_TOKEN: '', GATEWAY_STOP_DELAY_SECONDS: '' };

/** Runs the same script as the PostgreSQL image. After that, all roles need their passwords. */
async function prepareDatabases(compose: ComposeFile, postgres: PostgresServer): Promise<void> {
  const { environment = {}, volumes = [] } = serviceOf(compose, 'postgres');
  const script = volumes.find((volume) => volume.includes(':/docker-entrypoint-initdb.d/'))?.split(':')[0] ?? '';
  const { hostname: PGHOST, port: PGPORT } = new URL(postgres.url);
  const given = Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, String(value)]));
  await run(join(root, script), [], { env: { PATH: `${await postgresPrograms()}:/usr/bin:/bin`, PGHOST, PGPORT, ...given } });
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  const { rows } = await client.query<{ hba_file: string }>('show hba_file');
  const rules = [
    'host all gateway,temporal,grafana 127.0.0.1/32 scram-sha-256',
    'host all postgres 127.0.0.1/32 trust',
    'local all all trust',
  ];
  await writeFile(rows[0]?.hba_file ?? '', `${rules.join('\n')}\n`);
  await client.query('select pg_reload_conf()');
  await client.end();
}

interface Running {
  readonly processes: TestProcesses;
  readonly postgres: PostgresServer;
  readonly temporal: TemporalServer;
  readonly vendor: ScriptedVendor;
}

async function stopAll({ processes, postgres, temporal, vendor }: Running): Promise<void> {
  await processes.stopAll();
  await Promise.all([postgres.stop(), temporal.remove(), vendor.close()]);
}
