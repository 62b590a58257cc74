/** Tests calls whose body has many megabytes, so that it's checked and read outside of the event loop. */
import { request as sendRequest } from 'node:http';
import { afterAll, afterEach, expect, test } from '@jest/globals';
import { eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { startLocalServer } from '../support/local-server.ts';

const mebibyte = 1_024 * 1_024;
const line = 'a long prompt of an ordinary document; ';
const largeText = line.repeat(Math.ceil((8 * mebibyte) / line.length));
const answer = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'answered' }, finish_reason: 'stop' }],
});

/** What happened, in order. The vendor reports a request when its headers arrive. */
const events: string[] = [];
const received: { body: Buffer; length: string | undefined }[] = [];
const vendor = await startLocalServer((request, response) => {
  const length = request.headers['content-length'];
  events.push(Number(length) > mebibyte ? 'large sent' : 'small sent');
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    received.push({ body: Buffer.concat(chunks), length });
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
  });
});
afterAll(vendor.close);
afterEach(() => {
  events.length = 0;
  received.length = 0;
});

const shared = shareGateway({
  database: 'any',
  yaml: () => `
providers: { own: { base_url: ${vendor.url}/v1, api_key: key, dialect: chat } }
models: { own/m: { input: 1, output: 1 } }
tiers: { standard: [own/m] }
`,
});

/** Sends a chat, calls `onSent` once all of it has been sent, and resolves with the status. */
function sendChat(text: string, onSent: () => void): Promise<number | undefined> {
  const { url, key } = shared();
  const body = JSON.stringify({ model: 'own/m', messages: [{ role: 'user', content: text }] });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const request = sendRequest(`${url}/v1/chat/completions`, { method: 'POST', headers }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode));
    });
    request.on('error', reject).on('finish', onSent).end(body);
  });
}

test('answers other calls while it checks a large prompt', async () => {
  // The first job starts the thread, which would give the small call even more time.
  expect(await sendChat(`0 ${largeText}`, () => undefined)).toBe(200);
  await sendChat('0', () => undefined);
  events.length = 0;
  let small: Promise<unknown> = Promise.resolve();
  const large = sendChat(`1 ${largeText}`, () => {
    small = sendChat('1', () => undefined).then(() => events.push('small answered'));
  });
  expect(await large).toBe(200);
  await small;
  expect(events).toEqual(['small sent', 'small answered', 'large sent']);
});

test('forwards a large body unchanged except for the model', async () => {
  const { call, database } = shared();
  const secret = `sk-${'proj'}-Ab1${'cD2eF3gH4i'.repeat(4)}`;
  const text = `my key is ${secret} \\ud83d\\ude00 ${largeText}`;
  const bodyFor = (model: string): string => `{ "x" : 1.0, "model" : "${model}" ,"messages":[{"role":"user","content":"${text}"}] }\n`;
  expect((await call('/v1/chat/completions', bodyFor('own/m'))).status).toBe(200);
  expect(received).toHaveLength(1);
  expect(received[0]?.body.equals(Buffer.from(bodyFor('m')))).toBe(true);
  expect(received[0]?.length).toBe(String(received[0]?.body.length));
  const [stored] = await eventually(async () => {
    const rows = await database.query<{ start: string; length: number }>(
      `select left(content ->> 'text', 30) as start, length(content ->> 'text') as length from parts where content ->> 'text' like 'my key is%'`,
    );
    expect(rows).toHaveLength(1);
    return rows;
  });
  expect(stored?.start).toContain('my key is [credential] 😀 a lon');
  expect(stored?.length).toBeLessThan(4 * mebibyte + 1);
});

test.each([
  ['before', (model: string, text: string) => `{"model":"${model}","messages":[{"role":"user","content":"${text}"}] , "x":1.0}\n`],
  ['after', (model: string, text: string) => ` {"messages":[{"role":"user","content":"${text}"}],"x":1.0,"model" : "${model}"}`],
  [
    'between a long text and',
    (model: string, text: string) => `{"x":"${text}","model":"${model}","messages":[{"role":"user","content":"${text}"}]}`,
  ],
])('forwards a body of several hundred kilobytes if the model comes %s the messages', async (_place, bodyFor) => {
  const text = line.repeat(5_000);
  for (let turn = 0; turn < 3; turn += 1)
    expect((await shared().call('/v1/chat/completions', bodyFor('own/m', `${turn} ${text}`))).status).toBe(200);
  expect(received.map(({ body }) => body.toString())).toEqual([0, 1, 2].map((turn) => bodyFor('m', `${turn} ${text}`)));
  expect(received.every(({ body, length }) => length === String(body.length))).toBe(true);
});

test("returns 400 for a large body that isn't JSON", async () => {
  const response = await shared().call('/v1/chat/completions', `{"messages":["${largeText}"`);
  expect(response.status).toBe(400);
  expect(await jsonOf(response)).toMatchObject({
    error: { code: 'bad_json', message: expect.stringContaining('the body is not valid JSON: ') },
  });
});

test('converts a large legacy completion to a chat', async () => {
  const response = await shared().call('/v1/completions', { model: 'own/m', prompt: largeText });
  expect(await jsonOf(response)).toMatchObject({ object: 'text_completion', choices: [{ text: 'answered' }] });
  expect(JSON.parse(received[0]?.body.toString() ?? '')).toEqual({ model: 'm', messages: [{ role: 'user', content: largeText }] });
});

test('applies content rules to all of a large body', async () => {
  const { admin, withProject } = shared();
  const { call } = await withProject('ruled');
  const rules = [{ class: 'expression', place: 'input', action: 'block', expression: 'project night' }];
  expect((await admin('PUT', '/provision/teams/ruled/rules', { rules })).status).toBe(200);
  const chat = (text: string) => call('/v1/chat/completions', { model: 'own/m', messages: [{ role: 'user', content: text }] });
  expect(await jsonOf(chat(`${line.repeat(50_000)} project night`))).toMatchObject({ error: { code: 'guardrail_blocked' } });
  const twice = await call('/v1/chat/completions', `{"model":"own/m","messages":[{"content":"a","content":"${line.repeat(50_000)}"}]}`);
  expect(await jsonOf(twice)).toMatchObject({ error: { code: 'bad_json', message: expect.stringContaining('duplicate key') } });
  expect(received).toHaveLength(0);
  expect((await chat(line.repeat(50_000))).status).toBe(200);
});
