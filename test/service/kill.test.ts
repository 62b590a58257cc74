/**
 * Kills a busy gateway with `kill -9`. After the next start, usage has to contain every complete response exactly once.
 */
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { eachCallIsStoredOnce } from '../simulation/invariants.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, firstKeyOf, type GatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { createScriptedVendor } from '../support/scripted-vendor/server.ts';
import { onBothDatabases } from './both-databases.ts';

const processes = createProcesses();
const concurrentCalls = 200;

/** One call as its caller observed it. */
interface SeenCall {
  /** The name is also its task id, which would reveal a call that is stored under two ids. */
  readonly name: string;
  /** Null if no response headers arrived. */
  readonly id: string | null;
  readonly isWhole: boolean;
  /** True if the connection was reset, before or after the response was complete. */
  readonly isBroken: boolean;
}

interface CallKind {
  readonly path: string;
  readonly body: object;
  readonly isWhole: (text: string) => boolean;
}

const question = [{ role: 'user', content: 'Describe a river.' }];
const plain = 'echo+slow-60+long-10';
const paced = 'echo+pace-15+long-10';
const kinds: readonly CallKind[] = [
  { path: '/v1/chat/completions', body: { model: `one/${plain}`, messages: question }, isWhole: isJson },
  {
    path: '/v1/chat/completions',
    body: { model: `one/${paced}`, messages: question, stream: true },
    isWhole: (text) => text.includes('data: [DONE]'),
  },
  { path: '/v1/messages', body: { model: `two/${plain}`, messages: question, max_tokens: 100 }, isWhole: isJson },
  {
    path: '/v1/messages',
    body: { model: `two/${paced}`, messages: question, max_tokens: 100, stream: true },
    isWhole: (text) => text.includes('event: message_stop'),
  },
];

/**
 * The moments at which we kill the process. Since every start takes seconds of CPU time, only exhaustive runs try all
 * of them. Other runs use the last one, when the process is busiest.
 */
const moments: readonly { readonly title: string; readonly hasCome: (asked: number, whole: number) => boolean }[] = [
  { title: 'while the first answers begin', hasCome: (asked) => asked >= concurrentCalls / 2 },
  { title: 'after the first whole answers', hasCome: (_asked, whole) => whole >= 20 },
  { title: 'when answers end and begin all the time', hasCome: (_asked, whole) => whole >= 1.5 * concurrentCalls },
];

interface UsageRow {
  readonly id: string;
  readonly task_id: string;
  readonly outcome: string;
  readonly cost: number;
  readonly tokens: { readonly input: number; readonly output: number };
}

interface Usage {
  readonly spend: number;
  readonly by_model: readonly { readonly cost: number; readonly tokens: number; readonly calls: number }[];
}

afterAll(() => processes.stopAll());

onBothDatabases('kill -9 during 200 concurrent calls', (kind) => {
  const killed = isExhaustive ? moments : moments.slice(-1);

  it('stores every completed call exactly once', async () => {
    let asked = 0;
    let onAsked = (): void => undefined;
    const vendor = await createScriptedVendor({
      observe() {
        asked += 1;
        onAsked();
      },
    });
    const database = kind === 'server' ? await createTestDatabase() : null;
    try {
      const home = await processes.home(kind === 'server' ? 'empty' : 'migrated');
      await writeFile(join(home, 'gateway.yaml'), yamlOf(vendor.url));
      // Flushing slows down journal writes, which exposes responses sent before their record was written.
      const env = { DATABASE_URL: database?.url ?? '', GATEWAY_JOURNAL_SYNC: 'on' };
      const start = (): Promise<GatewayProcess> => processes.start('start', { home, env });
      let gateway = await start();
      const key = firstKeyOf(gateway) ?? '';
      const seen: SeenCall[] = [];

      for (const [round, { title, hasCome }] of killed.entries()) {
        const askedBefore = asked;
        let whole = 0;
        const strike = (): void => {
          if (hasCome(asked - askedBefore, whole)) gateway.child.kill('SIGKILL');
        };
        const onWhole = (): void => {
          whole += 1;
          strike();
        };
        onAsked = strike;
        const calls = await Promise.all(
          Array.from({ length: concurrentCalls }, (_, caller) =>
            callUntilDeath(gateway, { key, name: `${round}-${caller}`, first: caller, onWhole }),
          ),
        );
        expect({ title, ended: await gateway.exited }).toEqual({ title, ended: 'SIGKILL' });
        seen.push(...calls.flat());

        gateway = await start();
        const { rows, usage } = await eventually(async () => {
          // The journals of dead processes are recovered, so only the one of the running process remains.
          expect(await readdir(join(home, 'data', 'journal'))).toHaveLength(1);
          return { rows: await allRows(gateway), usage: await jsonOf<Usage>(gateway.call(key, '/usage/me')) };
        });
        expectExactlyOnce(seen, rows);
        expect(rows.length).toBeGreaterThanOrEqual(asked);
        expectSameSums(usage, rows);
        expect(gateway.logs().filter(({ level }) => level === 'error')).toEqual([]);
      }
      expect(await gateway.end('SIGTERM')).toBe(0);
    } finally {
      await vendor.close();
      await database?.drop();
    }
  });
});

interface Caller {
  readonly key: string;
  readonly name: string;
  /** The kind of its first call. */
  readonly first: number;
  readonly onWhole: () => void;
}

/** Repeats calls until the connection is reset. */
async function callUntilDeath(gateway: GatewayProcess, { key, name, first, onWhole }: Caller): Promise<readonly SeenCall[]> {
  const calls: SeenCall[] = [];
  while (calls.at(-1)?.isBroken !== true) {
    const turn = calls.length;
    const kind = kinds[(first + turn) % kinds.length];
    if (kind) calls.push(await makeCall(gateway, { key, name: `${name}-${turn}`, kind, onWhole }));
  }
  return calls;
}

async function makeCall(
  gateway: GatewayProcess,
  { key, name, kind, onWhole }: { key: string; name: string; kind: CallKind; onWhole: () => void },
): Promise<SeenCall> {
  let id: string | null = null;
  let status = 200;
  let text = '';
  let isWhole = false;
  let isBroken = false;
  try {
    // The cache is off, because we time the kill by the requests that the vendor receives.
    const answer = await gateway.call(key, kind.path, kind.body, { 'x-gateway-task-id': name, 'cache-control': 'no-store' });
    ({ status } = answer);
    id = answer.headers.get('x-gateway-call-id');
    const decoder = new TextDecoder();
    for await (const bytes of answer.body ?? []) {
      text += decoder.decode(bytes, { stream: true });
      if (isWhole || !kind.isWhole(text)) continue;
      isWhole = true;
      onWhole();
    }
  } catch {
    isBroken = true;
  }
  expect(status).toBe(200);
  if (!isBroken && !isWhole) throw new Error(`an answer ended as if it were whole: ${text}`);
  return { name, id, isWhole, isBroken };
}

async function allRows(gateway: GatewayProcess): Promise<readonly UsageRow[]> {
  const rows: UsageRow[] = [];
  for (;;) {
    const before = rows.length === 0 ? '' : `&before=${rows.at(-1)?.id}`;
    const { data } = await jsonOf<{ data: readonly UsageRow[] }>(gateway.admin('GET', `/provision/teams/default/calls?limit=250${before}`));
    if (data.length === 0) return rows;
    rows.push(...data);
  }
}

function expectExactlyOnce(seen: readonly SeenCall[], rows: readonly UsageRow[]): void {
  const byName = new Map(rows.map((row) => [row.task_id, row]));
  const answered = seen.flatMap(({ id, isWhole }) => (isWhole && id !== null ? [id] : []));
  eachCallIsStoredOnce(
    answered,
    rows.map(({ id }) => id),
  );
  expect(byName.size).toBe(rows.length);
  for (const { name, id, isWhole } of seen) {
    const row = byName.get(name);
    if (isWhole) expect({ name, ...row }).toMatchObject({ name, id, outcome: 'ok' });
    // We record each call before we send it to the vendor, so if its response has begun, there must be a row.
    else if (id !== null) expect({ name, ...row }).toMatchObject({ name, id, outcome: expect.stringMatching(/^(unknown|ok)$/) });
    else if (row) expect(row.outcome).toMatch(/^(unknown|ok)$/);
  }
  const names = new Set(seen.map(({ name }) => name));
  expect(rows.filter((row) => !names.has(row.task_id))).toEqual([]);
}

function expectSameSums(usage: Usage, rows: readonly UsageRow[]): void {
  const total = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0);
  expect(usage.spend).toBeGreaterThan(0);
  expect(usage.spend).toBeCloseTo(total(rows.map(({ cost }) => cost)), 9);
  expect(total(usage.by_model.map(({ cost }) => cost))).toBeCloseTo(usage.spend, 9);
  expect(total(usage.by_model.map(({ calls }) => calls))).toBe(rows.length);
  expect(total(usage.by_model.map(({ tokens }) => tokens))).toBe(total(rows.map(({ tokens }) => tokens.input + tokens.output)));
}

function yamlOf(vendorUrl: string): string {
  const price = '{ input: 1, output: 4 }';
  return `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: any, dialect: chat }
  two: { base_url: ${vendorUrl}/v1, api_key: any, dialect: messages }
models:
${['one', 'two'].flatMap((provider) => [plain, paced].map((model) => `  ${provider}/${model}: ${price}`)).join('\n')}
tiers:
  standard: [one/${plain}]
`;
}

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === 'object';
  } catch {
    return false;
  }
}
