/**
 * Runs a service whose worker keeps crashing and restarting with the same database and Temporal server. An API process
 * keeps running and shares its data directory with the workers. A vendor records if it gets requests for work that has
 * already finished.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Database } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import type { CrashPoint } from './crash-worker.ts';
import { copyTestBundle, jsonOf } from './gateway.ts';
import { createProcesses, type GatewayProcess, gatewayFlags, shortLived } from './gateway-process.ts';
import { startLocalServer } from './local-server.ts';
import { createTestDatabase, openTestDatabase } from './postgres.ts';
import { createScriptedVendor } from './scripted-vendor/server.ts';
import { createTestLog } from './temporal.ts';
import { createTemporalServer } from './temporal-server.ts';

const namespace = 'crash';
const program = fileURLToPath(new URL('crash-worker.ts', import.meta.url));
const crashTimeoutMs = 600_000;

export interface Project {
  readonly id: string;
  readonly slug: string;
  call(path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
  erase(subject: string): Promise<Response>;
}

export interface ObservedRequest {
  readonly job: 'memories' | 'consolidation' | 'embeddings' | 'video';
  /** True if the work for this request wasn't done when the request arrived. */
  readonly isOpen: boolean;
}

export interface CrashService {
  readonly database: Database;
  readonly temporal: Temporal;
  readonly serving: GatewayProcess;
  /** All requests for memory and video polls that the vendor has received. */
  readonly requests: readonly ObservedRequest[];
  addProject(slug: string, settings?: object): Promise<Project>;
  /** Resets the latest run of a workflow to its first task, like an operator would. */
  resetToStart(workflowId: string): Promise<void>;
  /** Starts a worker that doesn't crash, and logs each crash point that it passes. */
  startObserver(): Promise<GatewayProcess>;
  startWorker(): Promise<GatewayProcess>;
  /** Runs a worker until it has crashed at each of these points. */
  runUntilCrash(crashes: readonly CrashPoint[]): Promise<void>;
  stopAll(): Promise<void>;
}

const yamlOf = (vendorUrl: string): string => `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: any, dialect: chat }
  film: { base_url: ${vendorUrl}/v1beta, api_key: any, dialect: gemini }
models: { one/echo: { input: 1, output: 1 }, one/vectors: { kind: embeddings, input: 1 }, 'film/clip:video-polls-0': { per_second: 0.05 } }
tiers: { trivial: [one/echo] }
memory: { idle_minutes: 0.02, retry: { first_minutes: 0.02, factor: 2, longest_minutes: 1 } }
`;

/** The caller has to stop it with `stopAll`. */
export async function createCrashService(): Promise<CrashService> {
  const processes = createProcesses();
  const testDatabase = await createTestDatabase();
  const database = openTestDatabase(testDatabase.url, 4);
  await migrate(database);
  const vendor = await createRecordingVendor(database);
  const server = await createTemporalServer();
  const temporal = createTemporal({ address: server.address, namespace, logger: createTestLog().logger });
  const home = await processes.home('empty');
  await writeFile(join(home, 'gateway.yaml'), yamlOf(vendor.url));
  await mkdir(join(home, 'data'));
  await copyTestBundle(join(home, 'data'));
  const env = {
    DATABASE_URL: testDatabase.url,
    GATEWAY_TEMPORAL: 'on',
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_CREATE_NAMESPACE: 'true',
  };
  const serving = await processes.start('serve', { home, env });
  const startCrashWorker = (...crash: string[]) =>
    processes.start('worker', {
      home,
      env,
      program: [process.execPath, ...shortLived, '--no-warnings', ...gatewayFlags, program, ...crash],
    });
  return {
    database,
    temporal,
    serving,
    requests: vendor.asked,
    async addProject(slug, settings = {}) {
      await serving.admin('PUT', `/provision/teams/${slug}`, settings);
      const { key } = await jsonOf<{ key: string }>(serving.admin('POST', `/provision/teams/${slug}/keys`, { name: 'test' }));
      const [row] = await database.query<{ id: string }>('select id from projects where slug = $1::text', [slug]);
      return {
        id: row?.id ?? '',
        slug,
        call: (path, body, headers) => serving.call(key, path, body, headers),
        erase: (subject) =>
          fetch(`${serving.url}/v1/memory/subjects/${subject}`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } }),
      };
    },
    async resetToStart(workflowId) {
      const run = temporal.client.workflow.getHandle(workflowId);
      const { runId } = await run.describe();
      const { events } = await run.fetchHistory();
      const firstTask = events?.find((event) => event.workflowTaskCompletedEventAttributes);
      await temporal.client.workflowService.resetWorkflowExecution({
        namespace,
        workflowExecution: { workflowId, runId },
        reason: 'an operator wants it',
        workflowTaskFinishEventId: firstTask?.eventId ?? null,
        requestId: randomUUID(),
      });
    },
    startObserver: () => startCrashWorker(),
    startWorker: () => processes.start('worker', { home, env }),
    async runUntilCrash(crashes) {
      const worker = await startCrashWorker(JSON.stringify(crashes));
      const limit = new AbortController();
      const timeout = sleep(crashTimeoutMs, 'too long', { signal: limit.signal }).catch(() => 'ended');
      const end = await Promise.race([worker.exited, timeout]);
      limit.abort();
      if (end !== 'SIGKILL') {
        const wanted = crashes.map(({ activity, point }) => `${activity} ${point}`).join(', ');
        throw new Error(`the worker did not come to all of ${wanted}, but ${end}:\n${worker.stdout()}${worker.stderr()}`);
      }
    },
    async stopAll() {
      await processes.stopAll();
      await temporal.close();
      await server.remove();
      await vendor.close();
      await database.close();
      await testDatabase.drop();
    },
  };
}

/**
 * Creates a scripted vendor behind a proxy. For each request, the proxy first looks up whether the work is still
 * pending.
 */
async function createRecordingVendor(database: Database) {
  const vendor = await createScriptedVendor();
  const requests: ObservedRequest[] = [];
  const isOpen = async (sql: string, value: unknown): Promise<boolean> => (await database.query(sql, [value])).length > 0;

  async function record(path: string, body: string): Promise<void> {
    if (path.includes('/operations/')) {
      const operation = path.slice(path.indexOf('models/'));
      requests.push({
        job: 'video',
        isOpen: await isOpen(`select 1 from videos where operation = $1::text and state = 'running'`, operation),
      });
    } else if (path === '/v1/embeddings') {
      const { input } = JSON.parse(body) as { input: string[] };
      requests.push({
        job: 'embeddings',
        isOpen: !(await isOpen(`select 1 from memory_passages where text = any ($1::text[]) and embedding is not null`, input)),
      });
    } else if (body.includes('json_schema')) {
      const { response_format } = JSON.parse(body) as { response_format: { json_schema: { name: 'memories' | 'consolidation' } } };
      const { name: job } = response_format.json_schema;
      const [, slug] = /I live in ([\w-]+)/.exec(body) ?? [];
      const state = job === 'memories' ? 'waiting' : 'learned';
      const group = `select 1 from memory_batch_groups part join projects project on project.id = part.project_id
        where part.state = '${state}' and project.slug = $1::text`;
      requests.push({ job, isOpen: await isOpen(group, slug) });
    }
  }

  const proxy = await startLocalServer(async (request, response) => {
    const { method = '', url = '', headers } = request;
    try {
      const body = await textOf(request);
      await record(url, body);
      const { authorization, 'x-goog-api-key': googleKey } = headers;
      const answer = await fetch(vendor.url + url, {
        method,
        headers: {
          'content-type': 'application/json',
          ...(authorization && { authorization }),
          ...(googleKey && { 'x-goog-api-key': String(googleKey) }),
        },
        ...(method === 'POST' && { body }),
      });
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
      response.end(await answer.text());
    } catch {
      response.destroy(); // Nobody is waiting for the response, because the client has crashed or the test is over.
    }
  });
  return {
    asked: requests,
    url: proxy.url,
    async close() {
      await proxy.close();
      await vendor.close();
    },
  };
}
