/**
 * Erases a subject while twenty writers write about it. Earlier writes have to be deleted and later ones have to be
 * kept, even after a kill -9.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from '@jest/globals';
import { dumpDatabase } from '../memory/find-text.ts';
import { eventually, jsonOf, withGateway } from '../support/gateway.ts';
import { createProcesses } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { createScriptedVendor } from '../support/scripted-vendor/server.ts';

const subject = 'Ada Erasable';
const writers = 20;
const PAUSE_MS = 500;

/** Sends a request with the key to a service. */
type Send = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Response>;

/** A write with a unique mark. `at` is its time according to the gateway. */
interface Written {
  readonly mark: string;
  readonly at: number;
}

interface Receipt {
  readonly id: string;
  readonly erased_at: string;
  readonly deleted: Readonly<Record<string, number>>;
}

/** Returns the time of a UUIDv7. */
const instantOf = (id: string): number => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);

/** Starts to write through several routes at the same time, until `stop` is called. */
function startWriting(services: readonly Send[]): { written: Written[]; stop(): Promise<void> } {
  const written: Written[] = [];
  let isStopped = false;
  let count = 0;

  const chat = async (send: Send, mark: string, { model = 'one/echo', ...more }: { model?: string; stream?: boolean; user?: string }) => {
    const headers: Record<string, string> = more.user === undefined ? { 'x-gateway-memory-subject': subject } : {};
    const messages = [{ role: 'user', content: `${mark} is what was said` }];
    const response = await send('POST', '/v1/chat/completions', { model, messages, ...more }, { ...headers, 'x-gateway-task-id': mark });
    await response.text();
    if (response.status === 200) written.push({ mark, at: instantOf(response.headers.get('x-gateway-call-id') ?? '') });
  };
  const ways: readonly ((send: Send, mark: string) => Promise<void>)[] = [
    (send, mark) => chat(send, mark, {}),
    (send, mark) => chat(send, mark, { user: subject }),
    (send, mark) => chat(send, mark, { model: 'one/echo+pace-60', stream: true }),
    async (send, mark) => {
      const response = await send('POST', '/v1/memory/items', { text: `${mark} is remembered`, subject });
      const { created_at: at = '' } = await jsonOf<{ created_at?: string }>(response);
      if (response.status === 201) written.push({ mark, at: Date.parse(at) });
    },
    async (send) => {
      const response = await send('POST', '/v1/memory/search', { query: 'remembered', subject });
      await response.text();
    },
  ];
  const write = async (writer: number): Promise<void> => {
    while (!isStopped) {
      count += 1;
      const send = services[writer % services.length];
      await (send && ways[Math.floor(writer / 2) % ways.length]?.(send, `mark${count}x`).catch(() => undefined));
      // We pause so that even the slowest machine can store the writes. A dead process rejects them immediately.
      await sleep(PAUSE_MS);
    }
  };
  const all = Promise.all(Array.from({ length: writers }, (_value, writer) => write(writer)));
  return {
    written,
    async stop() {
      isStopped = true;
      await all;
    },
  };
}

/** Skips the ballast file, which is 64 MiB of random bytes. */
async function readFolder(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name !== 'reserve').map((entry) => join(entry.parentPath, entry.name));
  // Segments may be deleted while we read them.
  return (await Promise.all(files.map((file) => readFile(file, 'latin1').catch(() => '')))).join('\n');
}

const marksIn = (text: string): ReadonlySet<string> => new Set(text.match(/mark\d+x/g));

interface Place {
  readonly services: readonly Send[];
  readonly journal: string;
  readonly dump: () => Promise<string>;
  /** Called during the erasure. */
  readonly meanwhile?: () => Promise<unknown>;
}

async function eraseUnderLoad({ services, journal, dump: dumpAll, meanwhile = async () => undefined }: Place): Promise<void> {
  const [first] = services;
  if (!first) throw new Error('no service');
  const cached = { model: 'one/echo', messages: [{ role: 'user', content: 'mark0x is kept by the cache' }] };
  const ask = async (): Promise<string | null> => {
    const response = await first('POST', '/v1/chat/completions', cached, { 'x-gateway-memory-subject': subject });
    await response.text();
    return response.headers.get('x-gateway-cache');
  };
  expect([await ask(), await ask()]).toEqual(['miss', 'hit']);

  const writing = startWriting(services);
  await eventually(async () => expect(writing.written.length).toBeGreaterThan(3 * writers));
  const stored = [...writing.written];
  await eventually(async () => {
    const rows = marksIn(await dumpAll());
    expect(stored.filter(({ mark }) => !rows.has(mark))).toEqual([]);
  });
  const [response] = await Promise.all([first('DELETE', `/v1/memory/subjects/${encodeURIComponent(subject)}`), meanwhile()]);
  const receipt = await jsonOf<Receipt>(response);
  expect([response.status, receipt]).toEqual([200, receipt]);
  const erasedAt = Date.parse(receipt.erased_at);
  const sentLater = (): Written[] => writing.written.filter(({ at }) => at > erasedAt + 200);
  await eventually(async () => expect(sentLater().length).toBeGreaterThan(writers));
  await writing.stop();

  const { calls = 0, memories = 0 } = receipt.deleted;
  expect(Math.min(calls, memories)).toBeGreaterThan(0);
  expect(calls + memories).toBeGreaterThanOrEqual(stored.length);
  const before = [...writing.written.filter(({ at }) => at <= erasedAt), { mark: 'mark0x', at: 0 }];
  expect(before.length).toBeGreaterThan(3 * writers);
  await eventually(async () => {
    const [rows, files] = [marksIn(await dumpAll()), marksIn(await readFolder(journal))];
    expect(before.filter(({ mark }) => rows.has(mark) || files.has(mark))).toEqual([]);
    expect(sentLater().filter(({ mark }) => !rows.has(mark))).toEqual([]);
  });

  const found = await (await first('POST', '/v1/memory/search', { query: 'remembered said', subject, limit: 50 })).text();
  const page = await (await first('POST', '/v1/memory/wake-up', { subject })).text();
  for (const text of [found, page]) expect(before.filter(({ mark }) => marksIn(text).has(mark))).toEqual([]);
  expect(found).toMatch(/mark\d+x/);
  expect(await ask()).toBe('miss');

  // Two more erasures. The first one deletes later writes, and the second one finds nothing.
  await first('DELETE', `/v1/memory/subjects/${encodeURIComponent(subject)}`);
  const last = await jsonOf<Receipt>(first('DELETE', `/v1/memory/subjects/${encodeURIComponent(subject)}`));
  expect(Object.values(last.deleted).every((count) => count === 0)).toBe(true);
  await eventually(async () => expect(`${await dumpAll()}${await readFolder(journal)}`).not.toMatch(/mark\d+x|Ada Erasable/));
}

test('erases everything about a subject that was written before the erasure', async () => {
  await withGateway({ database: 'any', cache: true }, async ({ url, key, dataDir, database }) => {
    const send: Send = (method, path, body, headers) => request(url, key, { method, path, body, headers });
    await eraseUnderLoad({ services: [send], journal: join(dataDir, 'journal'), dump: () => dumpDatabase(database) });
  });
});

describePostgres('two processes on one PostgreSQL', () => {
  const processes = createProcesses();
  const returns: (() => Promise<unknown>)[] = [() => processes.stopAll()];
  afterAll(async () => {
    for (const giveBack of returns) await giveBack();
  });

  test('erases everything about a subject even if a process is killed during the erasure', async () => {
    const lent = await createTestDatabase();
    const vendor = await createScriptedVendor({ port: 0, paceMs: 0 });
    const database = openTestDatabase(lent.url, 2);
    returns.push(
      () => vendor.close(),
      () => database.close(),
      () => lent.drop(),
    );
    const home = await processes.home('empty');
    await writeFile(
      join(home, 'gateway.yaml'),
      `providers:\n  one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat }\nmodels:\n  one/echo: { input: 1, output: 1 }\n`,
    );
    const start = (command: 'start' | 'serve') => processes.start(command, { home, env: { DATABASE_URL: lent.url } });
    const first = await start('start');
    const second = await start('serve');
    const { key } = await jsonOf<{ key: string }>(first.admin('POST', '/provision/teams/default/keys', { name: 'writers' }));
    const services = [first, second].map(
      ({ url }): Send =>
        (method, path, body, headers) =>
          request(url, key, { method, path, body, headers }),
    );
    await eraseUnderLoad({
      services,
      journal: join(home, 'data', 'journal'),
      dump: () => dumpDatabase(database),
      meanwhile: () => second.end('SIGKILL'),
    });
  });
});

interface RequestOptions {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly headers: Record<string, string> | undefined;
}

function request(url: string, key: string, { method, path, body, headers }: RequestOptions): Promise<Response> {
  const type = body === undefined ? {} : { 'content-type': 'application/json' };
  return fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, ...type, ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}
