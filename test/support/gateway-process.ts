/**
 * Runs the real program in separate processes, to test kills, signals, exit codes and console output.
 *
 * The working directory of a process is called its home. It's a folder with the data directory `data` and optionally a
 * `gateway.yaml`. Processes don't inherit the environment of the tests.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { copyEmbeddedTemplate } from './embedded-template.ts';
import { createTestDatabase, type TestDatabase } from './postgres-database.ts';
import { run } from './run.ts';

/** The root of the repository. */
export const root = fileURLToPath(new URL('../..', import.meta.url));

const adminToken = 'test-admin-token-0123456789';
/**
 * V8 flags for processes that don't run for long. Optimizing PGlite takes a sixth of the CPU time of a start, and would
 * only pay off after minutes. Garbage collections take a tenth, because almost everything that a start allocates stays
 * alive, so the new space should be large enough for it.
 */
export const shortLived = ['--wasm-tiering-budget=130000000', '--min-semi-space-size=16'];
/**
 * With a cache, only the first process has to strip the types and compile everything. That's half of what a start
 * takes.
 */
const compileCache = join(root, 'node_modules', '.cache', 'model-gateway', 'compiled');
/** Lets programs that load the gateway's modules use code that gateways have compiled. */
export const gatewayFlags = ['--import', new URL('gateway-flags.ts', import.meta.url).href];
const startTimeoutMs = 600_000;
const endTimeoutMs = 120_000;
const outputTimeoutMs = 3_000;

export interface ProcessOptions {
  readonly home: string;
  /** Environment variables for the process. To remove a variable, set it to an empty text. */
  readonly env?: Readonly<Record<string, string>>;
  /** Runs this program instead of Node with `src/main.ts` and the command. */
  readonly program?: readonly string[];
}

export interface GatewayProcess {
  readonly child: ChildProcess;
  /** Where the process listens. Empty if it has ended before that. */
  readonly url: string;
  stdout(): string;
  stderr(): string;
  /** Returns all log lines so far. */
  logs(): readonly LogLine[];
  /** Resolves with the exit code, or with the name of the signal that ended the process. */
  readonly exited: Promise<number | string>;
  /** Sends the signal and waits until the process has ended. */
  end(signal: NodeJS.Signals): Promise<number | string>;
  /** Calls `fetch` with a virtual key. */
  call(key: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** Calls `fetch` on a provisioning route with the admin token. */
  admin(method: string, path: string, body?: unknown): Promise<Response>;
}

export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

export interface TestProcesses {
  /** Runs `gateway <command>` and waits until it listens or ends. */
  start(command: string, options: ProcessOptions): Promise<GatewayProcess>;
  /**
   * Creates a home. With `migrated` it already has a migrated embedded database, so the first start doesn't have to run
   * the migrations.
   */
  home(content: 'migrated' | 'empty'): Promise<string>;
  /**
   * Creates a home for a test that doesn't depend on the database. `env` selects a migrated database on the test run's
   * PostgreSQL server, because PGlite takes half of the CPU time of a start. Without a server, the home has an embedded
   * database.
   */
  homeWithAnyDatabase(): Promise<{ readonly home: string; readonly env: Readonly<Record<string, string>> }>;
  /** Kills all processes that are still running, and removes the homes and their databases. */
  stopAll(): Promise<void>;
}

/** The caller has to end the processes with `afterAll(processes.stopAll)`. */
export function createProcesses(): TestProcesses {
  const homes: string[] = [];
  const databases: TestDatabase[] = [];
  const started: GatewayProcess[] = [];
  const createHome = async (content: 'migrated' | 'empty'): Promise<string> => {
    const home = await mkdtemp(join(tmpdir(), 'gateway-home-'));
    homes.push(home);
    if (content === 'migrated') copyEmbeddedTemplate(join(home, 'data'));
    return home;
  };
  return {
    async start(command, options) {
      const { gateway, untilUp } = spawnGateway(command, options);
      started.push(gateway);
      await untilUp();
      return gateway;
    },
    home: createHome,
    async homeWithAnyDatabase() {
      if (!process.env.GATEWAY_TEST_POSTGRES_URL) return { home: await createHome('migrated'), env: {} };
      const database = await createTestDatabase();
      databases.push(database);
      return { home: await createHome('empty'), env: { DATABASE_URL: database.url } };
    },
    async stopAll() {
      await Promise.all(started.map((gateway) => gateway.end('SIGKILL')));
      for (const pid of homes.length > 0 ? await processesOf(...homes) : []) process.kill(pid, 'SIGKILL');
      for (const home of homes) await rm(home, { recursive: true, force: true, maxRetries: 5 });
      for (const database of databases) await database.drop();
    },
  };
}

/** Returns the key that a process printed on its first start. Null for later starts. */
export function firstKeyOf(gateway: GatewayProcess): string | null {
  return /sk-gw-\S+/.exec(gateway.stdout())?.[0] ?? null;
}

/** Returns the model that serves a call to the `standard` tier. Null if the call is rejected. */
export async function activeModel(gateway: GatewayProcess, key: string): Promise<string | null> {
  const response = await gateway.call(key, '/v1/chat/completions', { model: 'standard', messages: [{ role: 'user', content: 'hi' }] });
  await response.arrayBuffer();
  return response.headers.get('x-gateway-model');
}

/** Finds all processes that have one of these homes in their command line or environment. */
export async function processesOf(...homes: string[]): Promise<number[]> {
  const isOfHome = (text: string): boolean => homes.some((home) => text.includes(home));
  if (process.platform !== 'linux') {
    const lines = (await run('ps', ['-Aww', '-o', 'pid=,command='])).split('\n');
    return lines.filter(isOfHome).map((line) => Number.parseInt(line, 10));
  }
  // We read synchronously, because reading hundreds of tiny files in the thread pool takes six times the CPU time.
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => isOfHome(readProcessFile(pid, 'cmdline') + readProcessFile(pid, 'environ'))).map(Number);
}

/** Returns an empty text if the process has ended or belongs to somebody else. */
function readProcessFile(pid: string, name: 'cmdline' | 'environ'): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

/**
 * Lets processes whose source code is in a temporary folder use code that earlier ones have compiled. Returns their
 * environment variables. A portable cache finds modules by their path relative to the cache. The folder has a different
 * name in each run, so we link to the cache from there.
 */
export async function shareCompileCache(folder: string, name: string): Promise<Record<string, string>> {
  const store = `${compileCache}-${name}`;
  await mkdir(store, { recursive: true });
  const link = join(folder, 'compiled');
  await symlink(store, link);
  return { NODE_COMPILE_CACHE: link, NODE_COMPILE_CACHE_PORTABLE: '1' };
}

function spawnGateway(command: string, options: ProcessOptions): { gateway: GatewayProcess; untilUp(): Promise<void> } {
  const [file = '', ...args] = options.program ?? [process.execPath, ...shortLived, join(root, 'src', 'main.ts'), command];
  // The channel closes when this process dies, and then the gateway stops like one that `npm start` has started.
  const channel = options.program ? [] : (['ipc'] as const);
  const child = spawn(file, args, { cwd: options.home, env: environmentOf(options), stdio: ['ignore', 'pipe', 'pipe', ...channel] });
  let stdout = '';
  let stderr = '';
  let url = '';
  let hasEnded = false;
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  // `close` only fires when we've read all output. A child of the process may still be running and keep the output
  // open, so don't wait forever.
  const closed = once(child, 'close');
  const exited = once(child, 'exit').then(async ([code, signal]: (number | string | null)[]) => {
    hasEnded = true;
    await Promise.race([closed, sleep(outputTimeoutMs, null, { ref: false })]);
    return code ?? signal ?? 'nothing';
  });
  const logs = (): LogLine[] => stdout.split('\n').flatMap((line) => (/^\{.*\}$/.test(line) ? [JSON.parse(line) as LogLine] : []));
  const output = (): string => `${stdout}\n${stderr}`;
  const gateway: GatewayProcess = {
    child,
    get url() {
      return url;
    },
    stdout: () => stdout,
    stderr: () => stderr,
    logs,
    exited,
    async end(signal) {
      if (!hasEnded) child.kill(signal);
      const limit = new AbortController();
      const timeout = sleep(endTimeoutMs, null, { signal: limit.signal }).catch(() => null);
      const status = await Promise.race([exited, timeout]);
      limit.abort();
      if (status === null) throw new Error(`gateway ${command} did not end after ${signal}:\n${output()}`);
      return status;
    },
    call: (key, path, body, headers) => send(url + path, { method: body === undefined ? 'GET' : 'POST', token: key, body, headers }),
    admin: (method, path, body) => send(url + path, { method, token: adminToken, body }),
  };
  return {
    gateway,
    async untilUp() {
      for (const deadline = performance.now() + startTimeoutMs; !hasEnded && url === ''; await sleep(20)) {
        url = String(logs().find(({ msg }) => msg === 'listening')?.url ?? / listening url=(\S+)/.exec(stdout)?.[1] ?? '');
        if (performance.now() > deadline) throw new Error(`gateway ${command} does not listen:\n${output()}`);
      }
      if (hasEnded) await exited;
    },
  };
}

function environmentOf({ home, env = {}, program }: ProcessOptions): Record<string, string> {
  const { PATH = '', HOME = '', XDG_CACHE_HOME = '' } = process.env;
  const variables = {
    PATH,
    HOME,
    XDG_CACHE_HOME,
    HOST: '127.0.0.1',
    PORT: '0',
    GATEWAY_DATA_DIR: join(home, 'data'),
    GATEWAY_ADMIN_TOKEN: adminToken,
    GATEWAY_TEMPORAL: 'off',
    GATEWAY_LOCAL_EMBEDDER: 'off',
    GATEWAY_STOP_DELAY_SECONDS: '0',
    NODE_COMPILE_CACHE: compileCache,
    ...(!program && { GATEWAY_BOOTSTRAP_IPC: String(process.pid) }),
    ...env,
  };
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
}

interface Message {
  readonly method: string;
  readonly token: string;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

function send(url: string, { method, token, body, headers }: Message): Promise<Response> {
  const type = body === undefined ? {} : { 'content-type': 'application/json' };
  const given = { authorization: `Bearer ${token}`, ...type, ...headers };
  return fetch(url, { method, headers: given, ...(body !== undefined && { body: JSON.stringify(body) }) });
}
