/**
 * Runs a whole gateway for a test: the app on a free port, its database (PGlite or PostgreSQL), the scripted vendor,
 * and a project with a key. Everything is stopped afterwards. Use `gateway-process.ts` to run the real program in a
 * separate process instead.
 */
import { access, copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll } from '@jest/globals';
import type { App } from '../../src/app.ts';
import { createApp } from '../../src/app.ts';
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

/** The admin token of every test gateway. */
export const adminToken = 'test-admin-token-0123456789';

export interface TestGateway {
  readonly url: string;
  /** The slug of the project whose key `call` uses. */
  readonly project: string;
  /** A virtual key of the project. */
  readonly key: string;
  /** The same gateway with another project, so that tests do not share calls, breakers and caches. */
  withProject(slug: string): Promise<TestGateway>;
  readonly vendor: ScriptedVendor;
  readonly app: App;
  readonly database: Database;
  readonly dataDir: string;
  /** The log lines so far. */
  readonly logs: string[];
  /** Calls `fetch` with the key. Strings and bytes are sent unchanged, and any other body is sent as JSON. */
  call(path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Calls `fetch` on a provisioning route with the admin token. */
  admin(method: string, path: string, body?: unknown): Promise<Response>;
}

export interface GatewayOptions {
  /**
   * PGlite by default. Tests that do not depend on the database use `any`, which is the PostgreSQL of the run if there
   * is one, because it takes half of the CPU time, or else PGlite.
   */
  readonly database?: 'embedded' | 'server' | 'any';
  /**
   * Returns the text of gateway.yaml. By default it has two providers of each dialect, all of them on the scripted
   * vendor.
   */
  readonly yaml?: (vendorUrl: string, deadUrl: string) => string;
  /** With this option `app.startDurable()` starts a Temporal dev server. Otherwise durable work is off. */
  readonly temporal?: boolean;
  /** A data directory that is kept after the gateway stops. The caller has to remove it. */
  readonly dataDir?: string;
  /** Wraps the database of the app. */
  readonly wrapDatabase?: (database: Database) => Database;
  readonly clock?: Clock;
  /** How long the shutdown waits for running responses. */
  readonly graceMs?: number;
  /** The resolution of the waits for first content. */
  readonly contentWaitTickMs?: number;
  /**
   * Enables the response cache for the projects. It is off by default because most tests repeat requests and expect
   * them to reach the vendor.
   */
  readonly cache?: boolean;
  /** Additional environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Replaces the file system of the journal. */
  readonly journalFiles?: JournalFileSystem;
  /** Lets the scripted vendor respond instead of the local embedder, which has this readiness. */
  readonly isLocalEmbedderReady?: () => boolean;
}

/**
 * Providers `one` and `two` (chat), `three` and `four` (messages) and `dead` (refuses connections), with the tier
 * `standard` over both dialects. The recall deadline is long enough for a slow machine.
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
 * Runs one gateway for all tests of a file or group. Call it in the file or in `describe` and use its result inside
 * tests.
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
      // The search for the Temporal program needs PATH.
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
    // We wait as long as for the embedded database, because a busy machine takes more than the two seconds that a
    // service waits.
    database = openServerDatabase({ connectionString: shared.url, connectTimeoutMs: 30_000 });
  }
  cleanups.push(() => database.close());
  return database;
}

/** This saves the seconds in which the worker would build the bundle. */
export async function copyTestBundle(dataDir: string): Promise<void> {
  const bundle = await prepareTestBundle();
  await copyFile(bundle, join(dataDir, basename(bundle)));
}

/** The JSON body of a response, typed by the test. */
export async function jsonOf<Shape>(response: Promise<Response> | Response): Promise<Shape> {
  return (await (await response).json()) as Shape;
}

/** A row of `GET /provision/teams/{project}/calls`, with the members that tests read. */
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
 * Repeats `check` until it succeeds, and throws its last error after `limitMs`. The longer we wait, the less often we
 * check, because each check costs CPU time.
 */
export async function eventually<Result>(check: () => Promise<Result>, limitMs = 120_000): Promise<Result> {
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
