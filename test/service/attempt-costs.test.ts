/**
 * Tests that the cost of a call, and its usage on ceilings, includes attempts that timed out and calls that the caller
 * has left, because a vendor may bill them.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

const maxOutput = 100_000;
/** The bound of one attempt: its output at 10 USD per million tokens. Input is free. */
const boundUsd = 1;
/** The window of the models that read a file. We can't know how much of it the file takes up. */
const fileWindow = 200_000;

let vendor: LocalServer;
/** Responds to the call that is waiting for us at the provider. */
let release: (() => void) | null = null;

beforeAll(async () => {
  vendor = await startLocalServer((request, response) => {
    request.resume();
    const answer = (): void => {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }];
      const usage = { prompt_tokens: 1, completion_tokens: 1_000 };
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ choices, usage }));
    };
    if (request.url?.startsWith('/deferred/')) response.setHeader('content-type', 'application/json').end('{"request_id":"later"}');
    else if (request.url?.startsWith('/held/')) release = answer;
    else if (request.url?.startsWith('/opening/')) {
      const choices = [{ index: 0, delta: { role: 'assistant', content: 'hi' } }];
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(`data: ${JSON.stringify({ choices })}\n\n`);
    } else if (!request.url?.startsWith('/hanging/')) answer();
  });
});
afterAll(() => vendor.close());

const gateway = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  hanging: { base_url: ${vendor.url}/hanging, api_key: k, dialect: chat, first_byte_timeout_ms: 300 }
  spare: { base_url: ${vendor.url}/spare, api_key: k, dialect: chat }
  held: { base_url: ${vendor.url}/held, api_key: k, dialect: chat }
  opening: { base_url: ${vendor.url}/opening, api_key: k, dialect: chat }
  deferred: { base_url: ${vendor.url}/deferred, api_key: k, dialect: chat }
models:
  deferred/m: { input: 100, output: 10, max_output_tokens: ${maxOutput} }
  hanging/m: { input: 0, output: 10, max_output_tokens: ${maxOutput} }
  spare/m: { input: 0, output: 10, max_output_tokens: ${maxOutput} }
  held/m: { input: 0, output: 10, max_output_tokens: ${maxOutput} }
  hanging/reader: { input: 1, output: 0, max_output_tokens: ${maxOutput}, max_input_tokens: ${fileWindow} }
  opening/reader: { input: 1, output: 0, max_output_tokens: ${maxOutput}, max_input_tokens: ${fileWindow} }
tiers: { standard: [hanging/m, spare/m] }
`,
});

async function withKey(slug: string, costCeiling: number) {
  const lent: TestGateway = await gateway().withProject(slug);
  const { key } = await jsonOf<{ key: string }>(
    lent.admin('POST', `/provision/teams/${slug}/keys`, { name: 'limited', ceilings: { cost: costCeiling } }),
  );
  const body = (model: string) => ({ model, messages: [{ role: 'user', content: 'hi' }] });
  return { lent, key, send: (model: string) => lent.call('/v1/chat/completions', body(model), { authorization: `Bearer ${key}` }) };
}

interface StoredCost {
  readonly cost: number;
  readonly estimated: boolean;
  readonly attempts: readonly number[];
  /** The settled usage of the key's ceiling. */
  readonly settled: number;
}

async function readCosts({ database, project }: TestGateway, calls: number): Promise<StoredCost[]> {
  return eventually(async () => {
    const rows = await database.query<StoredCost & object>(
      `select cost_nanos::float8 as cost, estimated,
              (select array_agg(a.cost_nanos::float8 order by n) from attempts a where a.call_id = c.id) as attempts,
              (select settled::float8 from limit_counters l where l.project_id = c.project_id and l.holder = 'key' and l.ceiling = 'cost') as settled
         from calls c join projects on projects.id = c.project_id where slug = $1 order by c.id`,
      [project],
    );
    expect(rows).toHaveLength(calls);
    return rows;
  });
}

test('charges a call for all of its attempts', async () => {
  const { lent, send } = await withKey('attempt-sum', 10);
  expect((await send('standard')).status).toBe(200);
  const [row] = await readCosts(lent, 1);
  const [hung = 0, served = 0] = row?.attempts ?? [];
  expect(hung).toBeGreaterThan(0);
  expect(served).toBe(10_000_000);
  expect(row).toMatchObject({ cost: hung + served, estimated: true, settled: hung + served });
});

test('charges for responses of another kind, such as a receipt for a deferred completion', async () => {
  const { lent, key } = await withKey('deferred', 10);
  const body = { model: 'deferred/m', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] };
  for (const stream of [false, true])
    expect((await lent.call('/v1/chat/completions', { ...body, stream }, { authorization: `Bearer ${key}` })).status).toBe(502);
  const rows = await readCosts(lent, 2);
  for (const { cost, estimated, attempts } of rows) expect([cost > 100, estimated, attempts.length]).toEqual([true, true, 1]);
  expect(rows[0]?.settled).toBe(rows.reduce((sum, { cost }) => sum + cost, 0));
});

test("doesn't fail over if the cost ceiling has no room for another attempt", async () => {
  // There is room for two calls, but not for the attempt that is billed in addition to them.
  const { lent, send } = await withKey('attempt-room', 2 * boundUsd);
  const held = send('held/m');
  await eventually(async () => expect(release).not.toBeNull());
  const refused = await send('standard');
  expect(refused.status).toBe(502);
  expect(await refused.json()).toMatchObject({
    error: { code: 'upstream_failed', message: expect.stringContaining('timed out waiting for the response') },
  });
  release?.();
  expect((await held).status).toBe(200);
  const rows = await readCosts(lent, 2);
  expect(rows.map(({ attempts }) => attempts.length)).toEqual([1, 1]);
});

test('counts files towards the cost ceiling if the caller leaves before the vendor reports its usage', async () => {
  const { lent, key } = await withKey('files-left', 0.5);
  const file = { type: 'file', file: { file_id: 'file-1' } };
  const body = (model: string) => ({ model, max_tokens: 10, messages: [{ role: 'user', content: [file] }] });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const left = new AbortController();
  const stream = await fetch(`${lent.url}/v1/chat/completions`, {
    ...{ method: 'POST', headers, signal: left.signal },
    body: JSON.stringify({ ...body('opening/reader'), stream: true }),
  });
  await stream.body?.getReader().read();
  left.abort();
  const [streamed] = await readCosts(lent, 1);
  expect(streamed).toMatchObject({ cost: fileWindow * 1_000, estimated: true, settled: fileWindow * 1_000 });
  await lent.call('/v1/chat/completions', body('hanging/reader'), { authorization: `Bearer ${key}`, 'x-gateway-timeout-ms': '100' });
  const [, plain] = await readCosts(lent, 2);
  expect(plain).toMatchObject({ cost: fileWindow * 1_000, estimated: true, settled: 2 * fileWindow * 1_000 });
});
