/**
 * Runs a whole gateway for a test: the app on a free port, its database (PGlite or PostgreSQL), the scripted vendor, and a project with a
 * key; stops everything afterwards. `gateway-process.ts` runs the real program in a separate process instead.
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
  /** Slug of the project whose key `call` uses. */
  readonly project: string;
  /** A virtual key of the project. */
  readonly key: string;
  /** The same gateway with another project, so that calls, breakers and caches are not shared with other tests. */
  withProject(slug: string): Promise<TestGateway>;
  readonly vendor: ScriptedVendor;
  readonly app: App;
  readonly database: Database;
  readonly dataDir: string;
  /** The log lines so far. */
  readonly logs: string[];
  /** `fetch` with the key; a string or bytes are sent unchanged, any other body as JSON. */
  call(path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** `fetch` on a provisioning route with the admin token. */
  admin(method: string, path: string, body?: unknown): Promise<Response>;
}

export interface GatewayOptions {
  /**
   * `any`, for tests of what is independent of the database: the run's PostgreSQL, which takes half of the CPU time, else PGlite. PGlite by
   * default.
   */
  readonly database?: 'embedded' | 'server' | 'any';
  /** Returns the text of gateway.yaml; by default two providers of each dialect, all on the scripted vendor. */
  readonly yaml?: (vendorUrl: string, deadUrl: string) => string;
  /** `app.startDurable()` starts a Temporal dev server; otherwise durable work is off. */
  readonly temporal?: boolean;
  /** A data directory that remains after the gateway; the caller removes it. */
  readonly dataDir?: string;
  /** Wraps the database of the app. */
  readonly wrapDatabase?: (database: Database) => Database;
  readonly clock?: Clock;
  /** How long the shutdown waits for running responses. */
  readonly graceMs?: number;
  /** Resolution of the waits for first content. */
  readonly contentWaitTickMs?: number;
  /** Enables the response cache of the projects. It is off by default: most tests repeat requests and expect them to reach the vendor. */
  readonly cache?: boolean;
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Replaces the file system of the journal. */
  readonly journalFiles?: JournalFileSystem;
  /** The scripted vendor responds in place of the local embedder, whose readiness this is. */
  readonly isLocalEmbedderReady?: () => boolean;
}

/** Providers `one` and `two` (chat), `three` and `four` (messages), `dead` (refuses connections); tier `standard` over both dialects. A slow machine does not exceed the deadline of recall. */
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

/** One gateway for all tests of a file or group: call it in the file or `describe`, and its result inside tests. */
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
      // The search for the Temporal program needs it.
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
    // As long as for the embedded database: a busy machine takes more than the two seconds that a service waits.
    database = openServerDatabase({ connectionString: shared.url, connectTimeoutMs: 30_000 });
  }
  cleanups.push(() => database.close());
  return database;
}

/** Saves the seconds in which the worker would build the bundle. */
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

/** The latest calls of the project, newest first. */
export async function callsOf({ admin, project }: Pick<TestGateway, 'admin' | 'project'>, query = ''): Promise<readonly CallRow[]> {
  const { data } = await jsonOf<{ data: readonly CallRow[] }>(admin('GET', `/provision/teams/${project}/calls${query}`));
  return data;
}

/** Repeats `check` until it succeeds; throws its last error after `limitMs`. Long waits check less often, since a check costs CPU. */
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
