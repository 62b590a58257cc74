/**
 * Tests background responses. The vendor keeps generating after it has responded, so we charge what the call had
 * reserved.
 */
import { request as httpRequest, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it, test } from '@jest/globals';
import { asObject, asString } from '../../src/core/json/narrow.ts';
import { eventually, shareGateway, type TestGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

const scripts = new Map<string, (response: ServerResponse) => void>();
let vendor: LocalServer;
beforeAll(async () => {
  vendor = await startLocalServer(async (request, response) => {
    response.on('error', () => undefined);
    const { input } = asObject(await json(request));
    scripts.get(asString(input) ?? '')?.(response);
  });
});
afterAll(() => vendor.close());

const gateway = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: key-one, dialect: chat }
models:
  one/model: { input: 1, output: 10 }
tiers: { standard: [one/model] }
`,
});

let projects = 0;
const lend = (): Promise<TestGateway> => {
  projects += 1;
  return gateway().withProject(`background-${projects}`);
};

function storedCall({ database, project }: TestGateway) {
  return eventually(async () => {
    const rows = await database.query<{ input: number; output: number; costNanos: number; estimated: boolean; outcome: string }>(
      `select outcome, tokens_input as input, tokens_output as output, cost_nanos as "costNanos", estimated
         from calls join projects on projects.id = project_id where slug = $1`,
      [project],
    );
    expect(rows).toHaveLength(1);
    return rows[0];
  });
}

/** The output limit of each call, and so the least that we reserve for its output. */
const maxOutput = 5_000;
const body = (input: string) => ({ model: 'one/model', input, background: true, max_output_tokens: maxOutput });

const sendJson = (response: ServerResponse, answer: object): void => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ id: 'resp_1', object: 'response', ...answer }));
};

test.each(['queued', 'in_progress'])('charges the reserved amount for a background response that is %s', async (status) => {
  const lent = await lend();
  scripts.set(status, (response) => sendJson(response, { status, background: true, output: [], usage: null }));
  const response = await lent.call('/v1/responses', body(status));
  expect([response.status, await response.json()]).toMatchObject([200, { status }]);
  const call = await storedCall(lent);
  expect(call?.output).toBeGreaterThanOrEqual(maxOutput);
  expect(call).toMatchObject({ outcome: 'ok', estimated: true });
  expect(call?.costNanos).toBeGreaterThanOrEqual(maxOutput * 10_000);
});

test.each(['completed', 'incomplete', 'failed', 'cancelled'])(
  'charges the reported usage for a background response that is %s',
  async (status) => {
    const lent = await lend();
    const usage = { input_tokens: 7, output_tokens: 11 };
    scripts.set(status, (response) => sendJson(response, { status, background: true, output: [], usage }));
    await lent.call('/v1/responses', body(status));
    expect(await storedCall(lent)).toMatchObject({ input: 7, output: 11, costNanos: 7_000 + 110_000, estimated: false });
  },
);

it.each([
  ['before its first event', ''],
  [
    'after its first event',
    'event: response.created\ndata: {"type":"response.created","response":{"status":"queued","background":true}}\n\n',
  ],
])('charges the reserved amount if the caller abandons a background response %s', async (when, text) => {
  const lent = await lend();
  const begun = Promise.withResolvers<void>();
  scripts.set(when, (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(text === '' ? ': keep-alive\n\n' : text);
    begun.resolve();
  });
  const headers = { authorization: `Bearer ${lent.key}`, 'content-type': 'application/json' };
  const request = httpRequest(`${lent.url}/v1/responses`, { method: 'POST', headers });
  const received = Promise.withResolvers<void>();
  request.on('error', () => undefined);
  request.on('response', (response) => {
    response.on('error', () => undefined);
    response.once('data', () => received.resolve());
  });
  request.end(JSON.stringify({ ...body(when), stream: true }));
  await (text === '' ? begun.promise : received.promise);
  request.destroy();
  const call = await storedCall(lent);
  expect(call).toMatchObject({ outcome: 'client_left', estimated: true });
  expect(call?.costNanos).toBeGreaterThanOrEqual(maxOutput * 10_000);
});
