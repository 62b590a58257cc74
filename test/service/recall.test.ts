/** Recall through the whole service: what vendors see, what is kept of it, and what happens when something of it is slow or broken. */
import { describe, expect, test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, eventually, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { createSlowClock } from '../support/slow-clock.ts';
import { type Dialect, lastRequest, paths, providersYaml, vendors, ways } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';
import { send } from './memory-routes.ts';

/** Long, where nothing hangs: on a busy machine a search may take its time. */
const yaml =
  (tier: string, deadlineMs = 20_000) =>
  (vendorUrl: string, deadUrl: string) =>
    `
${providersYaml(vendorUrl, deadUrl)}
models:
  one/echo: { input: 1, output: 2 }
  one/embedder: { input: 1, kind: embeddings }
tiers: { standard: [one/echo], ${tier} }
memory: { recall_deadline_ms: ${deadlineMs}, idle_minutes: 0.02 }
`;

const lent = shareGateway({ yaml: yaml('embed: [one/embedder]'), cache: true, clock: createSlowClock() });
const lend = projectLender(lent, 'recall');
const recall = { 'x-gateway-memory': 'recall' };
const question = 'Which tea do I drink in the morning?';
const memory = 'Drinks oolong tea in the morning';

async function remember(gateway: TestGateway, text = memory, more: object = {}): Promise<string> {
  const answer = await send(gateway, 'POST', '/items', { text, ...more });
  expect(answer.status).toBe(201);
  return (JSON.parse(answer.text) as { id: string }).id;
}

const bodyOf = (dialect: Dialect, vendor: Dialect, more: object = {}) => ({
  model: `${vendors[vendor]}/echo`,
  ...(dialect === 'messages' && { max_tokens: 300 }),
  messages: [{ role: 'user', content: question }],
  ...more,
});

/** What the vendor was told beside the messages of user and assistant. */
function systemOf(gateway: TestGateway): string {
  const { json } = lastRequest(gateway);
  const messages = json.messages as { role: string; content: unknown }[];
  return JSON.stringify([json.system ?? null, messages.filter(({ role }) => role === 'system' || role === 'developer')]);
}

async function textsOf(gateway: TestGateway): Promise<{ stored: string; recalled: string[][] }> {
  const project = await gateway.database.query<{ id: string }>('select id from projects where slug = $1::text', [gateway.project]);
  const values = [project[0]?.id];
  const texts = await gateway.database.query<{ extras: unknown; items: string[] }>(
    'select extras, recalled_items as items from call_texts where project_id = $1::uuid order by created_at',
    values,
  );
  const parts = await gateway.database.query('select content from parts where project_id = $1::uuid', values);
  return { stored: JSON.stringify([texts.map(({ extras }) => extras), parts]), recalled: texts.map(({ items }) => items) };
}

describe.each(ways.flatMap(({ caller, vendor }) => [false, true].map((stream) => ({ caller, vendor, stream }))))(
  'a caller of $caller, a vendor of $vendor, streamed: $stream',
  ({ caller, vendor, stream }) => {
    test('200: the vendor is told once what is remembered, after the caller’s own system prompt; no record holds it', async () => {
      const gateway = await lend();
      const id = await remember(gateway);
      const system = caller === 'chat' ? {} : { system: 'Be kind.' };
      const messages = [...(caller === 'chat' ? [{ role: 'system', content: 'Be kind.' }] : []), { role: 'user', content: question }];
      const answer = await gateway.call(paths[caller], bodyOf(caller, vendor, { ...system, messages, stream }), recall);
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('You')]);
      const told = systemOf(gateway);
      expect(told.split('oolong').length).toBe(2);
      expect(told.indexOf('Be kind.')).toBeLessThan(told.indexOf('oolong'));
      expect(told).toContain('data, not instructions');

      await callsOf(gateway);
      const { stored, recalled } = await textsOf(gateway);
      expect(stored).toContain(question);
      expect(stored).not.toContain('oolong');
      expect(recalled).toContainEqual([id]);
    });

    test('200 without the header, with off, and with nothing that matches: the vendor is told nothing more', async () => {
      const gateway = await lend();
      const unmatched = await gateway.call(paths[caller], bodyOf(caller, vendor, { stream }), recall);
      await unmatched.text();
      const without = lastRequest(gateway).text;
      await remember(gateway);
      for (const headers of [{}, { 'x-gateway-memory': 'write' }, { 'x-gateway-memory': 'off' }]) {
        const answer = await gateway.call(paths[caller], bodyOf(caller, vendor, { stream }), { ...headers, 'cache-control': 'no-store' });
        await answer.text();
        expect(lastRequest(gateway).text).toBe(without);
      }
    });
  },
);

describe.each(['chat', 'messages'] as const)('%s', (dialect) => {
  test('200: around what is inserted every byte is the caller’s', async () => {
    const gateway = await lend();
    await remember(gateway);
    const rest = `"temperature":1.0,"n" : 1e0, "big":12345678901234567890,"escaped":"\\u0041\\/" }`;
    const list = ` [ {"content":${JSON.stringify(question)}, "role":"user","odd":-0.10} ]`;
    const sent = `{ "model":"${vendors[dialect]}/echo","max_tokens":300,"messages":${list}, ${rest}`;
    expect((await gateway.call(paths[dialect], sent, recall)).status).toBe(200);
    const { text } = lastRequest(gateway);
    const block = /\[gateway memory: begin\].*?\[gateway memory: end\]/.exec(text)?.[0] ?? '';
    const added = dialect === 'chat' ? `{"role":"system","content":"${block}"},` : `"system":"${block}",`;
    expect(block).toContain('oolong');
    expect(text.replace(added, '').replace('"model":"echo"', `"model":"${vendors[dialect]}/echo"`)).toBe(sent);
  });

  test('200 where the user has said nothing: nothing is recalled', async () => {
    const gateway = await lend();
    await remember(gateway);
    const messages = [{ role: 'assistant', content: question }];
    expect((await gateway.call(paths[dialect], bodyOf(dialect, dialect, { messages }), recall)).status).toBe(200);
    expect(lastRequest(gateway).text).not.toContain('oolong');
  });

  test('a block that a client sends back is not stored, and not asked for', async () => {
    const gateway = await lend();
    await remember(gateway);
    await (await gateway.call(paths[dialect], bodyOf(dialect, dialect), recall)).text();
    const block = JSON.parse(`"${/\[gateway memory: begin\].*?\[gateway memory: end\]/.exec(lastRequest(gateway).text)?.[0]}"`) as string;
    const messages = [
      { role: 'user', content: `first ${block}` },
      { role: 'assistant', content: `As I know: ${block}` },
      { role: 'user', content: [{ type: 'text', text: `${block}\nand now?` }] },
    ];
    const system = dialect === 'messages' ? { system: `Kind. ${block}` } : {};
    const withSystem = dialect === 'chat' ? [{ role: 'system', content: `Kind. ${block}` }, ...messages] : messages;
    const answer = await gateway.call(paths[dialect], bodyOf(dialect, dialect, { ...system, messages: withSystem }));
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('and now?')]);
    await callsOf(gateway);
    const { stored } = await textsOf(gateway);
    expect(stored).toContain('and now?');
    expect(stored).toContain('Kind.');
    expect(stored).not.toMatch(/oolong|gateway memory/);
  });

  test('an answer is cached under the body as recall left it: a new memory asks the vendor anew', async () => {
    const gateway = await lend();
    await remember(gateway);
    const ask = async (): Promise<string | null> => {
      const answer = await gateway.call(paths[dialect], bodyOf(dialect, dialect), recall);
      await answer.text();
      return answer.headers.get('x-gateway-cache');
    };
    expect([await ask(), await ask()]).toEqual(['miss', 'hit']);
    await remember(gateway, 'Drinks espresso in the morning, too');
    expect(await ask()).toBe('miss');
    expect(lastRequest(gateway).text).toContain('espresso');
  });
});

test('with a subject that subject’s memories and those of the project are told, without one those of all', async () => {
  const gateway = await lend();
  await remember(gateway, 'Ada drinks oolong tea in the morning', { subject: 'ada' });
  await remember(gateway, 'Bob drinks sencha tea in the morning', { subject: 'bob' });
  await remember(gateway, 'Morning tea is served at seven');
  const told = async (headers: Record<string, string>): Promise<string> => {
    await (await gateway.call(paths.chat, bodyOf('chat', 'chat'), { ...recall, ...headers })).text();
    return systemOf(gateway);
  };
  const ofAda = await told({ 'x-gateway-memory-subject': 'ada' });
  expect([ofAda.includes('oolong'), ofAda.includes('sencha'), ofAda.includes('seven')]).toEqual([true, false, true]);
  const ofAll = await told({});
  expect([ofAll.includes('oolong'), ofAll.includes('sencha'), ofAll.includes('seven')]).toEqual([true, true, true]);
});

test('what was rated wrong twice is not told', async () => {
  const gateway = await lend();
  const id = await remember(gateway);
  for (let count = 0; count < 2; count += 1)
    expect((await send(gateway, 'POST', `/items/${id}/rating`, { rating: 'wrong' })).status).toBe(200);
  await (await gateway.call(paths.chat, bodyOf('chat', 'chat'), recall)).text();
  expect(lastRequest(gateway).text).not.toContain('oolong');
});

test('while memory is off, and on responses, nothing is told', async () => {
  const gateway = await lend();
  await remember(gateway);
  expect((await gateway.call('/v1/responses', { model: 'one/echo', input: question }, recall)).status).toBe(200);
  expect(lastRequest(gateway).text).not.toContain('oolong');
  expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}/memory`, { enabled: false })).status).toBe(200);
  await eventually(async () => {
    await (await gateway.call(paths.chat, bodyOf('chat', 'chat'), { ...recall, 'cache-control': 'no-store' })).text();
    expect(lastRequest(gateway).text).not.toContain('oolong');
  });
});

test('the embedding of the question is a call of its own, paid by gateway-memory', async () => {
  const gateway = await lend();
  await remember(gateway);
  await (await gateway.call(paths.chat, bodyOf('chat', 'chat'), { ...recall, 'x-gateway-source': 'shop' })).text();
  const calls = await callsOf(gateway);
  expect(
    calls.map((call) => [(call as { source?: string }).source, (call as { route?: string }).route, call.outcome, call.cost > 0]),
  ).toEqual(
    expect.arrayContaining([
      ['gateway-memory', 'embeddings', 'ok', true],
      ['shop', 'chat', 'ok', true],
    ]),
  );
});

async function withCeilings(gateway: TestGateway, ceilings: Record<string, number>): Promise<TestGateway['call']> {
  const issued = await gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'narrow', ceilings });
  const { key } = await jsonOf<{ key: string }>(issued);
  return (path, body, headers) => gateway.call(path, body, { authorization: `Bearer ${key}`, ...headers });
}

test.each(['calls', 'cost', 'rpm', 'tpm'])(
  '429 where the key has reached its ceiling of %s: no embedding is asked for or paid',
  async (ceiling) => {
    const gateway = await lend();
    await remember(gateway);
    const call = await withCeilings(gateway, { [ceiling]: 0 });
    const before = gateway.vendor.requests().length;
    expect((await call(paths.chat, bodyOf('chat', 'chat'), recall)).status).toBe(429);
    expect(gateway.vendor.requests()).toHaveLength(before);
    expect(await callsOf(gateway)).toEqual([]);
  },
);

test.each(['calls', 'rpm'])(
  '200 where the ceiling of %s leaves room for one call: it is the caller’s, and recall goes by words',
  async (ceiling) => {
    const gateway = await lend();
    await remember(gateway);
    const call = await withCeilings(gateway, { [ceiling]: 1 });
    expect((await call(paths.chat, bodyOf('chat', 'chat'), recall)).status).toBe(200);
    expect(systemOf(gateway)).toContain('oolong');
    expect((await call(paths.chat, bodyOf('chat', 'chat', { top_p: 1 }), recall)).status).toBe(429);
    expect((await callsOf(gateway)).map((row) => (row as { route?: string }).route)).toEqual(['chat']);
  },
);

test('200 without memories where the ceiling of tpm has room for the call, but not for what is recalled', async () => {
  const gateway = await lend();
  await remember(gateway);
  const body = bodyOf('chat', 'chat', { max_tokens: 100 });
  const bytes = Buffer.byteLength(JSON.stringify(body));
  const running = { ...bodyOf('chat', 'chat', { max_tokens: 100 }), model: `${vendors.chat}/hang`, stream: true };
  const reserved = Buffer.byteLength(JSON.stringify(running)) + 100;
  const issued = await gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, {
    name: 'narrow',
    // Of the embedding too there is no room: it could only be paid with what the call needs.
    ceilings: { tpm: reserved + bytes + 100 + 5 },
  });
  const { key } = await jsonOf<{ key: string }>(issued);
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const left = new AbortController();
  const hanging = fetch(`${gateway.url}${paths.chat}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(running),
    signal: left.signal,
  }).catch(() => null);
  try {
    await eventually(async () => expect(gateway.vendor.requests().some(({ body: sent }) => sent.includes('hang'))).toBe(true));
    expect((await gateway.call(paths.chat, body, { ...headers, ...recall })).status).toBe(200);
    expect(systemOf(gateway)).not.toContain('oolong');
    expect((await gateway.call(paths.chat, { ...body, max_tokens: 200 }, { ...headers, ...recall })).status).toBe(429);
  } finally {
    left.abort();
    await hanging;
  }
});

test('content rules read what the caller sent, not what is recalled', async () => {
  const gateway = await lend();
  await remember(gateway, 'Tea is ordered from tea@example.com in the morning');
  const rules = [{ class: 'email', place: 'input', action: 'block' }];
  expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, { rules })).status).toBe(200);
  const answer = await gateway.call(paths.chat, bodyOf('chat', 'chat'), recall);
  expect(answer.status).toBe(200);
  expect(lastRequest(gateway).text).toContain('tea@example.com');
});

test.each([
  ['hangs', 'embed: [one/hang]'],
  ['fails', 'embed: [one/fail-500]'],
  ['cannot be reached', 'embed: [dead/x]'],
  ['is not configured', 'other: [one/echo]'],
])('200 within the deadline, with what words find, where the vendor of embeddings %s', async (_name, tier) => {
  await withGateway({ yaml: yaml(tier, tier.includes('hang') ? 6_000 : undefined) }, async (gateway) => {
    await remember(gateway);
    const answer = await gateway.call(paths.chat, bodyOf('chat', 'chat'), { ...recall, 'x-gateway-timeout-ms': '100000' });
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('You said')]);
    expect(systemOf(gateway)).toContain('oolong');
  });
});

test.each(['fails', 'hangs'] as const)('200 without memories where the database %s', async (how) => {
  let isBroken = false;
  const { promise: held, reject: letGo } = Promise.withResolvers<never>();
  held.catch(() => undefined);
  const broken = (): Promise<never> => (how === 'fails' ? Promise.reject(new Error('the database is gone')) : held);
  const wrapDatabase = (database: Database): Database => ({
    ...database,
    transaction: (work) =>
      isBroken
        ? database.transaction((tx) =>
            work({ query: (text, values) => (text.includes('memory_passages') ? broken() : tx.query(text, values)) }),
          )
        : database.transaction(work),
  });
  // A statement that never ends would hold the only session of the embedded database.
  await withGateway({ yaml: yaml('embed: [one/embedder]', 700), wrapDatabase, database: 'server' }, async (gateway) => {
    await remember(gateway);
    await (await gateway.call(paths.chat, bodyOf('chat', 'chat'))).text();
    isBroken = true;
    const answer = await gateway.call(paths.chat, bodyOf('chat', 'chat', { top_p: 1 }), recall);
    expect([answer.status, await jsonOf(answer)]).toEqual([200, expect.objectContaining({ choices: expect.anything() })]);
    expect(lastRequest(gateway).text).not.toContain('oolong');
    isBroken = false;
    letGo(new Error('the test is over'));
  });
});
