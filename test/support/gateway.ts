/**
 * Runs a whole gateway for a test, i.e. the app on a free port, its database (PGlite or PostgreSQL), the scripted
 * vendor, and a project with a key. Everything is stopped after the test. If you want to run the real program in a
 * separate process, use `gateway-process.ts`.
 */
import { access, copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll } from '@jest/globals';
import type { App } from '../../src/app/app.ts';
import { createApp } from '../../src/app/app.ts';
import { loadConfig, withLocalEmbedder } from '../../src/config/load.ts';
import type { Clock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import type { JournalFileSystem } from '../../src/journal/file-system.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { copyEmbeddedTemplate } from './embedded-template.ts';
import { createTestDatabase } from './postgres.ts';
import type { ScriptedVendor } from './scripted-vendor/server.ts';
import { createScriptedVendor } from './scripted-vendor/server.ts';
import { unusedUrl } from './unused-port.ts';
import { prepareTestBundle } from './workflow-bundle.ts';

/** The admin token of all test gateways. */
export const adminToken = 'test-admin-token-0123456789';

export interface TestGateway {
  readonly url: string;
  /** The slug of the project that `call` uses. */
  readonly project: string;
  /** A virtual key of the project. */
  readonly key: string;
  /**
   * Returns this gateway with a different project. Two tests can then use it without sharing calls, breakers and
   * caches.
   */
  withProject(slug: string): Promise<TestGateway>;
  readonly vendor: ScriptedVendor;
  readonly app: App;
  readonly database: Database;
  readonly dataDir: string;
  /** All log lines so far. */
  readonly logs: string[];
  /** Calls `fetch` with the key. Strings and bytes are sent unchanged. Other bodies are sent as JSON. */
  call(path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Calls `fetch` on a provisioning route with the admin token. */
  admin(method: string, path: string, body?: unknown): Promise<Response>;
}

export interface GatewayOptions {
  /**
   * The default is PGlite. If a test works with any database, use `any`. It prefers the PostgreSQL server of the test
   * run, which takes half as much CPU time, but not every run has one.
   */
  readonly database?: 'embedded' | 'server' | 'any';
  /**
   * Returns the contents of gateway.yaml. By default, there are two providers for each dialect, all of them on the
   * scripted vendor.
   */
  readonly yaml?: (vendorUrl: string, deadUrl: string) => string;
  /** If set, `app.startDurable()` starts a Temporal dev server. Durable work is off by default. */
  readonly temporal?: boolean;
  /** Use this folder for data, and keep it when the gateway stops. The caller has to remove it. */
  readonly dataDir?: string;
  /** Replaces the database that the app gets, e.g. by one that fails. */
  readonly wrapDatabase?: (database: Database) => Database;
  readonly clock?: Clock;
  /** How long responses have to finish when the gateway is closed. */
  readonly graceMs?: number;
  readonly contentWaitTickMs?: number;
  /**
   * Turns on the response cache for all projects. It's off by default, because most tests repeat requests and expect
   * them to reach the vendor.
   */
  readonly cache?: boolean;
  /** Additional environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Replaces the file system that the journal uses. */
  readonly journalFiles?: JournalFileSystem;
  /** Replaces the local embedder by the scripted vendor. The function tells the gateway if the embedder is ready. */
  readonly isLocalEmbedderReady?: () => boolean;
}

/**
 * Returns a configuration with the providers `one` and `two` (chat), `three` and `four` (messages) and `dead` (refuses
 * connections). The `standard` tier uses both dialects. The recall deadline is long enough for a slow machine.
 */
export function defaultYaml(vendorUrl: string, deadUrl: string): string {
  return `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: key-one, dialect: chat }
  two: { base_url: ${vendorUrl}/v1, api_key: key-two, dialect: chat }
  three: { base_url: ${vendorUrl}/v1, api_key: key-three, dialect: messages }
  four: { base_url: ${vendorUrl}/v1, api_key: key-four, dialect: messages }
  dead: { base_url: ${deadUrl}/v1, api_key: key-dead, dialect: chat }
  dead-messages: { base_url: ${deadUrl}/v1, api_key: key-dead, dialect: messages }
models:
  one/echo: { input: 0.15, output: 0.60, cached_input: 0.075 }
  two/echo: { input: 3, output: 15 }
  three/echo: { input: 1, output: 5, cached_input: 0.1, cache_write: 1.25 }
  four/echo: { input: 1, output: 5 }
tiers:
  standard: [one/echo, two/echo, three/echo, four/echo]
memory: { idle_minutes: 0.02, recall_deadline_ms: 20000 }
`;
}

/**
 * Runs one gateway for all tests of a file or group. Call this at the top of the file or in `describe`, and use the
 * result inside tests.
 */
export function shareGateway(options: GatewayOptions): () => TestGateway {
  let shared: TestGateway | null = null;
  let release: () => void = () => undefined;
  let ended: Promise<unknown> = Promise.resolve();
  beforeAll(
    () =>
      new Promise<void>((ready, failed) => {
        ended = withGateway(options, (gateway) => {
          shared = gateway;
          ready();
          return new Promise<void>((done) => {
            release = done;
          });
        });
        ended.catch(failed);
      }),
  );
  afterAll(async () => {
    release();
    await ended;
  });
  return () => {
    if (!shared) throw new Error('the gateway exists inside tests only');
    return shared;
  };
}

export async function withGateway<Result>(options: GatewayOptions, work: (gateway: TestGateway) => Promise<Result>): Promise<Result> {
  const {
    temporal = false,
    wrapDatabase = (given) => given,
    clock,
    graceMs,
    contentWaitTickMs,
    cache = false,
    journalFiles,
    isLocalEmbedderReady,
  } = options;
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'gateway-test-')));
  const cleanups: (() => Promise<unknown>)[] = options.dataDir ? [] : [() => rm(dataDir, { recursive: true, force: true })];
  try {
    const vendor = await createScriptedVendor({ port: 0, paceMs: 0 });
    cleanups.push(() => vendor.close());
    const database = await openDatabase(options.database ?? 'embedded', dataDir, cleanups);
    await migrate(database);
    const logs: string[] = [];
    const logger = createLogger({ level: 'info', destination: { write: (line) => void logs.push(line) } });
    const yaml = (options.yaml ?? defaultYaml)(vendor.url, await unusedUrl());
    const env = {
      GATEWAY_TEMPORAL: temporal ? 'on' : 'off',
      GATEWAY_LOCAL_EMBEDDER: isLocalEmbedderReady ? 'on' : 'off',
      GATEWAY_DATA_DIR: dataDir,
      GATEWAY_ADMIN_TOKEN: adminToken,
      ...options.env,
    };
    const embedder = isLocalEmbedderReady ? { url: `${vendor.url}/v1`, token: 'key-local' } : null;
    const config = withLocalEmbedder(loadConfig({ env, fileText: yaml, fileName: 'gateway.yaml' }), embedder);
    if (temporal) await copyTestBundle(dataDir);
    const app = await createApp({
      role: 'start',
      config,
      database: wrapDatabase(database),
      logger,
      dataDir,
      // There's a PATH in it, which we need to find the Temporal program.
      environment: temporal ? process.env : {},
      ...(clock && { clock }),
      ...(graceMs !== undefined && { graceMs }),
      ...(contentWaitTickMs !== undefined && { contentWaitTickMs }),
      ...(journalFiles && { journalFiles }),
      ...(isLocalEmbedderReady && { isLocalEmbedderReady }),
    });
    cleanups.push(() => app.close());
    const url = await app.listen('127.0.0.1', 0);
    const withSlug = async (slug: string): Promise<TestGateway> => {
      const { project } = await app.projects.put(slug, cache ? {} : { cache: { enabled: false } });
      const { secret: key } = await app.keyring.issue(project.id, { name: 'test' });
      return {
        url,
        project: slug,
        key,
        vendor,
        app,
        database,
        dataDir,
        logs,
        withProject: withSlug,
        call: (path, body, headers = {}) => fetch(url + path, requestOf(body === undefined ? 'GET' : 'POST', key, body, headers)),
        admin: (method, path, body) => fetch(url + path, requestOf(method, adminToken, body, {})),
      };
    };
    return await work(await withSlug('acme'));
  } finally {
    for (const release of cleanups.reverse()) await release();
  }
}

function requestOf(method: string, token: string, body: unknown, headers: Record<string, string>): RequestInit {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  return {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }),
  };
}

async function openDatabase(
  kind: NonNullable<GatewayOptions['database']>,
  dataDir: string,
  cleanups: (() => Promise<unknown>)[],
): Promise<Database> {
  let database: Database;
  if (kind === 'embedded' || (kind === 'any' && !process.env.GATEWAY_TEST_POSTGRES_URL)) {
    const exists = await access(join(dataDir, 'db')).then(
      () => true,
      () => false,
    );
    if (!exists) copyEmbeddedTemplate(dataDir);
    database = await openEmbeddedDatabase({ dataDir });
  } else {
    const shared = await createTestDatabase();
    cleanups.push(() => shared.drop());
    // The default of two seconds is too short for a busy machine. Wait as long as for an embedded database.
    database = openServerDatabase({ connectionString: shared.url, connectTimeoutMs: 30_000 });
  }
  cleanups.push(() => database.close());
  return database;
}

/**
 * Copies the workflow bundle into a data directory. This saves the seconds that it takes a worker to build the bundle.
 */
export async function copyTestBundle(dataDir: string): Promise<void> {
  const bundle = await prepareTestBundle();
  await copyFile(bundle, join(dataDir, basename(bundle)));
}

/** Returns the JSON body of a response. The test specifies its type. */
export async function jsonOf<Shape>(response: Promise<Response> | Response): Promise<Shape> {
  return (await (await response).json()) as Shape;
}

/** A row of `GET /provision/teams/{project}/calls`, with the fields that tests read. */
export interface CallRow {
  readonly id: string;
  readonly cost: number;
  readonly outcome: string;
  readonly tokens: { readonly input: number; readonly output: number };
  readonly plan: readonly { readonly model: string; readonly skipped: string | null }[];
  readonly attempts: readonly {
    readonly n: number;
    readonly member: string | null;
    readonly status: number | null;
    readonly wait_ms: number;
  }[];
}

/** Returns the latest calls of the project, newest first. */
export async function callsOf({ admin, project }: Pick<TestGateway, 'admin' | 'project'>, query = ''): Promise<readonly CallRow[]> {
  const { data } = await jsonOf<{ data: readonly CallRow[] }>(admin('GET', `/provision/teams/${project}/calls${query}`));
  return data;
}

/**
 * Repeats `check` until it succeeds, or throws its last error after `limitMs`. Checks cost CPU time, so they become
 * less frequent.
 */
export async function eventually<Result>(check: () => Promise<Result>, limitMs = 300_000): Promise<Result> {
  const startedAt = performance.now();
  for (;;) {
    try {
      return await check();
    } catch (error) {
      const elapsedMs = performance.now() - startedAt;
      if (elapsedMs > limitMs) throw error;
      await sleep(Math.min(25 + elapsedMs / 20, 500));
    }
  }
}
