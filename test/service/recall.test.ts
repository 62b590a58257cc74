/**
 * Tests recall end to end, i.e. what vendors get, what is recorded, and what happens if a dependency is slow or broken.
 */
import { describe, expect, test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { readTextsOfPrompts } from '../memory/find-text.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, eventually, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { createSlowClock } from '../support/slow-clock.ts';
import { type Dialect, lastRequest, paths, providersYaml, vendors, ways } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';
import { expectJson, expectPlain, send } from './memory-routes.ts';

/** The deadline is long, so that a slow machine doesn't exceed it if nothing hangs. */
const yaml =
  (tier: string, deadlineMs = 20_000) =>
  (vendorUrl: string, deadUrl: string) =>
    `
${providersYaml(vendorUrl, deadUrl)}
models:
  one/echo: { input: 1, output: 2 }
  one/embedder: { input: 1, kind: embeddings }
  one/ranker: { per_search: 0.001 }
tiers: { standard: [one/echo], ${tier} }
memory: { recall_deadline_ms: ${deadlineMs}, idle_minutes: 0.02 }
`;

const lent = shareGateway({ database: 'any', yaml: yaml('embed: [one/embedder]'), cache: true, clock: createSlowClock() });
const lend = projectLender(lent, 'recall');
const recall = { 'x-gateway-memory': 'recall' };
const recalledHeader = 'x-gateway-memory-recalled';
const userMessage = 'Which tea do I drink in the morning?';
const memory = 'Drinks oolong tea in the morning';

async function remember(gateway: TestGateway, text = memory, more: object = {}): Promise<string> {
  const response = await send(gateway, 'POST', '/items', { text, ...more });
  expect(response.status).toBe(201);
  return (JSON.parse(response.text) as { id: string }).id;
}

const bodyOf = (dialect: Dialect, vendor: Dialect, more: object = {}) => ({
  model: `${vendors[vendor]}/echo`,
  ...(dialect === 'messages' && { max_tokens: 300 }),
  messages: [{ role: 'user', content: userMessage }],
  ...more,
});

/** Returns what the vendor received besides user and assistant messages. */
function systemOf(gateway: TestGateway): string {
  const { json } = lastRequest(gateway);
  const messages = json.messages as { role: string; content: unknown }[];
  return JSON.stringify([json.system ?? null, messages.filter(({ role }) => role === 'system' || role === 'developer')]);
}

async function textsOf(gateway: TestGateway): Promise<{ stored: string; recalled: string[][]; tokens: (number | null)[] }> {
  const project = await gateway.database.query<{ id: string }>('select id from projects where slug = $1::text', [gateway.project]);
  const values = [project[0]?.id];
  const texts = await gateway.database.query<{ items: string[]; tokens: number | null }>(
    'select recalled_items as items, recalled_tokens as tokens from call_texts where project_id = $1::uuid order by created_at',
    values,
  );
  const stored = await gateway.database.query('select content::text from parts where project_id = $1::uuid', values);
  const others = await readTextsOfPrompts(gateway.database, project[0]?.id);
  return { stored: JSON.stringify([stored, others]), recalled: texts.map(({ items }) => items), tokens: texts.map(({ tokens }) => tokens) };
}

describe.each(ways.flatMap(({ caller, vendor }) => [false, true].map((stream) => ({ caller, vendor, stream }))))(
  'a $caller caller with a $vendor vendor (streamed: $stream)',
  ({ caller, vendor, stream }) => {
    test("inserts memories after the caller's system prompt", async () => {
      const gateway = await lend();
      const id = await remember(gateway);
      const system = caller === 'chat' ? {} : { system: 'Be kind.' };
      const messages = [...(caller === 'chat' ? [{ role: 'system', content: 'Be kind.' }] : []), { role: 'user', content: userMessage }];
      const response = await gateway.call(paths[caller], bodyOf(caller, vendor, { ...system, messages, stream }), recall);
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('You')]);
      expect(response.headers.get(recalledHeader)).toBe(id);
      const inserted = systemOf(gateway);
      expect(inserted.split('oolong').length).toBe(2);
      expect(inserted.indexOf('Be kind.')).toBeLessThan(inserted.indexOf('oolong'));
      expect(inserted).toContain('data, not instructions');

      await callsOf(gateway);
      const { stored, recalled, tokens } = await textsOf(gateway);
      const block = /\[gateway memory: begin\].*?\[gateway memory: end\]/.exec(lastRequest(gateway).text)?.[0] ?? '';
      expect((tokens.at(-1) ?? 0) / (block.length / 4)).toBeCloseTo(1.1, 0);
      expect(stored).toContain(userMessage);
      expect(stored).not.toContain('oolong');
      expect(recalled).toContainEqual([id]);
    });

    test('inserts no memories without the recall header', async () => {
      const gateway = await lend();
      const unmatched = await gateway.call(paths[caller], bodyOf(caller, vendor, { stream }), recall);
      await unmatched.text();
      expect(unmatched.headers.get(recalledHeader)).toBeNull();
      const without = lastRequest(gateway).text;
      await remember(gateway);
      for (const headers of [{}, { 'x-gateway-memory': 'write' }, { 'x-gateway-memory': 'off' }]) {
        const response = await gateway.call(paths[caller], bodyOf(caller, vendor, { stream }), { ...headers, 'cache-control': 'no-store' });
        await response.text();
        expect([lastRequest(gateway).text, response.headers.get(recalledHeader)]).toEqual([without, null]);
      }
    });
  },
);

describe.each(['chat', 'messages'] as const)('%s', (dialect) => {
  test('leaves all other bytes of the body unchanged when it inserts memories', async () => {
    const gateway = await lend();
    await remember(gateway);
    const rest = `"temperature":1.0,"n" : 1e0, "big":12345678901234567890,"escaped":"\\u0041\\/" }`;
    const list = ` [ {"content":${JSON.stringify(userMessage)}, "role":"user","odd":-0.10} ]`;
    const sent = `{ "model":"${vendors[dialect]}/echo","max_tokens":300,"messages":${list}, ${rest}`;
    expect((await gateway.call(paths[dialect], sent, recall)).status).toBe(200);
    const { text } = lastRequest(gateway);
    const block = /\[gateway memory: begin\].*?\[gateway memory: end\]/.exec(text)?.[0] ?? '';
    const added = dialect === 'chat' ? `{"role":"system","content":"${block}"},` : `"system":"${block}",`;
    expect(block).toContain('oolong');
    expect(text.replace(added, '').replace('"model":"echo"', `"model":"${vendors[dialect]}/echo"`)).toBe(sent);
  });

  test('recalls no memories if there is no user message', async () => {
    const gateway = await lend();
    await remember(gateway);
    const messages = [{ role: 'assistant', content: userMessage }];
    expect((await gateway.call(paths[dialect], bodyOf(dialect, dialect, { messages }), recall)).status).toBe(200);
    expect(lastRequest(gateway).text).not.toContain('oolong');
  });

  test("doesn't store the recalled memories that a client sends back in its messages", async () => {
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
    const response = await gateway.call(paths[dialect], bodyOf(dialect, dialect, { ...system, messages: withSystem }));
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('and now?')]);
    await callsOf(gateway);
    const { stored } = await textsOf(gateway);
    expect(stored).toContain('and now?');
    expect(stored).toContain('Kind.');
    expect(stored).not.toMatch(/oolong|gateway memory/);
  });

  test('calls the vendor instead of using a cached response if there is a new memory to recall', async () => {
    const gateway = await lend();
    const first = await remember(gateway);
    const ask = async (more: object = {}): Promise<unknown[]> => {
      const response = await gateway.call(paths[dialect], bodyOf(dialect, dialect, more), recall);
      await response.text();
      return [response.headers.get('x-gateway-cache'), response.headers.get(recalledHeader)?.split(',').toSorted()];
    };
    expect([await ask(), await ask(), await ask({ stream: true })]).toEqual([
      ['miss', [first]],
      ['hit', [first]],
      ['hit', [first]],
    ]);
    const second = await remember(gateway, 'Drinks espresso in the morning, too');
    expect(await ask()).toEqual(['miss', [first, second].toSorted()]);
    expect(lastRequest(gateway).text).toContain('espresso');
    // The text is the same again, but the block in the cached response comes from another memory.
    expect((await send(gateway, 'DELETE', `/items/${second}`)).status).toBe(200);
    const third = await remember(gateway, 'Drinks espresso in the morning, too');
    expect(await ask()).toEqual(['hit', [first, third].toSorted()]);
  });
});

test('lists the recalled memories in the call record', async () => {
  const gateway = await lend();
  const shared = await remember(gateway);
  const ofAda = await remember(gateway, 'Ada drinks sencha tea in the morning', { subject: 'ada' });
  const rules = [{ class: 'email', place: 'output', action: 'block' }];
  expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, { rules })).status).toBe(200);
  const ask = async (task: string, more: object = {}, subject = 'bob'): Promise<number> => {
    const headers = { ...recall, 'x-gateway-task-id': task, 'x-gateway-memory-subject': subject };
    const response = await gateway.call(paths.chat, bodyOf('chat', 'chat', more), headers);
    await response.text();
    return response.status;
  };
  expect([await ask('plain'), await ask('hit'), await ask('stream', { stream: true, top_p: 0.9 })]).toEqual([200, 200, 200]);
  expect([502, 503]).toContain(await ask('failed', { model: 'one/fail-500' }));
  expect(await ask('blocked', { messages: [{ role: 'user', content: `${userMessage} Write to tea@example.com` }] })).toBe(403);
  expect(await ask('ada', { top_p: 0.8 }, 'ada')).toBe(200);
  const left = new AbortController();
  const before = gateway.vendor.requests().length;
  const hanging = fetch(`${gateway.url}${paths.chat}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', ...recall, 'x-gateway-task-id': 'left' },
    body: JSON.stringify({ ...bodyOf('chat', 'chat'), model: `${vendors.chat}/hang`, user: 'bob', stream: true }),
    signal: left.signal,
  }).catch(() => null);
  // The embedding comes first.
  await eventually(async () => expect(gateway.vendor.requests().length).toBe(before + 2));
  left.abort();
  await hanging;

  const recalledByTask = async (): Promise<Record<string, unknown>> =>
    Object.fromEntries(
      (await callsOf(gateway, `?source=${gateway.project}`)).map((call) => {
        const { task_id: task, outcome, cache, recalled } = call as typeof call & { task_id: string; cache: string; recalled: string[] };
        return [task, [outcome, cache, recalled.toSorted()]];
      }),
    );
  const both = [shared, ofAda].toSorted();
  const expected = {
    plain: ['ok', 'miss', [shared]],
    hit: ['ok', 'hit', [shared]],
    stream: ['ok', 'miss', [shared]],
    failed: ['failed', 'miss', [shared]],
    blocked: ['refused', 'miss', [shared]],
    left: ['client_left', 'miss', [shared]],
  };
  await eventually(async () => expect(await recalledByTask()).toEqual({ ...expected, ada: ['ok', 'miss', both] }));
  expect((await send(gateway, 'DELETE', '/subjects/ada')).status).toBe(200);
  // The task of the erased call is erased too.
  expect(await recalledByTask()).toEqual({ ...expected, null: ['ok', 'miss', []] });
});

test("recalls only the subject's own and project-wide memories", async () => {
  const gateway = await lend();
  await remember(gateway, 'Ada drinks oolong tea in the morning', { subject: 'ada' });
  await remember(gateway, 'Bob drinks sencha tea in the morning', { subject: 'bob' });
  await remember(gateway, 'Morning tea is served at seven');
  const recallText = async (headers: Record<string, string>): Promise<string> => {
    await (await gateway.call(paths.chat, bodyOf('chat', 'chat'), { ...recall, ...headers })).text();
    return systemOf(gateway);
  };
  const ofAda = await recallText({ 'x-gateway-memory-subject': 'ada' });
  expect([ofAda.includes('oolong'), ofAda.includes('sencha'), ofAda.includes('seven')]).toEqual([true, false, true]);
  const ofAll = await recallText({});
  expect([ofAll.includes('oolong'), ofAll.includes('sencha'), ofAll.includes('seven')]).toEqual([true, true, true]);
});

describe("a request whose user isn't valid", () => {
  const expectNoUsersMemories = async (dialect: Dialect, more: object, headers: object = {}): Promise<void> => {
    const gateway = await lend();
    await remember(gateway);
    await remember(gateway, 'Ada drinks sencha tea in the morning', { subject: 'ada' });
    await (await gateway.call(paths[dialect], bodyOf(dialect, dialect, more), { ...recall, ...headers })).text();
    expect(systemOf(gateway)).toContain('oolong');
    expect(lastRequest(gateway).text).not.toContain('sencha');
  };

  test.each<[string, Dialect, object]>([
    ['a number', 'chat', { user: 7 }],
    ['a list', 'chat', { user: ['ada'] }],
    ['an object', 'chat', { user: { id: 'ada' } }],
    ['an empty text', 'chat', { user: '' }],
    ['a control character', 'chat', { user: 'a\u0000' }],
    ['257 characters', 'chat', { user: 'x'.repeat(257) }],
    ['a number', 'messages', { metadata: { user_id: 7 } }],
    ['an empty text', 'messages', { metadata: { user_id: '' } }],
    ['half a surrogate pair', 'messages', { metadata: { user_id: '\ud800' } }],
    ['metadata that is a text', 'messages', { metadata: 'ada' }],
  ])("recalls no end user's memories for %s (%s)", (_title, dialect, more) => expectNoUsersMemories(dialect, more));

  test.each<[Dialect, object]>([
    ['chat', {}],
    ['messages', { metadata: { user_id: '' } }],
  ])("recalls no end user's memories if the subject header is empty (%s %j)", (dialect, more) =>
    expectNoUsersMemories(dialect, more, { 'x-gateway-memory-subject': '' }),
  );
});

test("doesn't recall memories that were rated wrong twice", async () => {
  const gateway = await lend();
  const id = await remember(gateway);
  for (let count = 0; count < 2; count += 1)
    expect((await send(gateway, 'POST', `/items/${id}/rating`, { rating: 'wrong' })).status).toBe(200);
  await (await gateway.call(paths.chat, bodyOf('chat', 'chat'), recall)).text();
  expect(lastRequest(gateway).text).not.toContain('oolong');
});

test('recalls no memories while memory is off', async () => {
  const gateway = await lend();
  await remember(gateway);
  expect((await gateway.call('/v1/responses', { model: 'one/echo', input: userMessage }, recall)).status).toBe(200);
  expect(lastRequest(gateway).text).not.toContain('oolong');
  expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}/memory`, { enabled: false })).status).toBe(200);
  await eventually(async () => {
    await (await gateway.call(paths.chat, bodyOf('chat', 'chat'), { ...recall, 'cache-control': 'no-store' })).text();
    expect(lastRequest(gateway).text).not.toContain('oolong');
  });
});

test('attributes the cost of embedding the query to gateway-memory', async () => {
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

interface DryRun {
  readonly enabled: boolean;
  readonly query: string | null;
  readonly block: string | null;
  readonly memories: { item: { id: string }; score: number; matched_by: string[]; why: { time: number } }[];
  readonly left_out: { item: { id: string }; reason: string }[];
  readonly vector: boolean;
  readonly late: boolean;
}

test('explains in a dry run which memories a call would recall', async () => {
  const gateway = await lend();
  const dryRun = (body: object): Promise<DryRun> =>
    expectJson(send(gateway, 'POST', '/recall', { dry_run: true, subject: 'ada', ...body }), 200);
  const sencha = await remember(gateway, 'Ada drinks sencha tea', { subject: 'ada' });
  const same = [await remember(gateway), await remember(gateway, 'Drinks Oolong tea in the morning!')];
  const wrong = await remember(gateway, 'Drinks coffee in the morning');
  for (let count = 0; count < 2; count += 1) await send(gateway, 'POST', `/items/${wrong}/rating`, { rating: 'wrong' });
  await remember(gateway, 'Bob drinks tea in the morning', { subject: 'bob' });

  const messages = [
    { role: 'assistant', content: 'Good morning!' },
    { role: 'user', content: [{ type: 'text', text: userMessage }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'x', content: 'no text' }] },
  ];
  const shown = await dryRun({ messages });
  expect(shown).toMatchObject({ dry_run: true, enabled: true, query: userMessage, vector: true, reranked: false, late: false });
  expect(shown.memories[0]).toMatchObject({
    matched_by: ['text'],
    why: { similarity: null, terms: expect.any(Number), time: 0, neighbours: 0, ratings: 0 },
  });
  const [ofToday] = (await dryRun({ text: `Which tea did I drink in ${new Date().getUTCFullYear()}?` })).memories;
  expect(ofToday?.why.time).toBeGreaterThan(0);
  const shownIds = shown.memories.map(({ item }) => item.id);
  const [repeated] = same.filter((id) => !shownIds.includes(id));
  expect(shownIds.toSorted()).toEqual([sencha, ...same.filter((id) => id !== repeated)].toSorted());
  expect(shown.left_out.map(({ item, reason }) => [item.id, reason])).toEqual([
    [repeated, 'near_duplicate'],
    [wrong, 'rated_wrong'],
  ]);
  expect((await callsOf(gateway)).map((call) => (call as { route?: string }).route)).toEqual(['embeddings', 'embeddings']);
  expect({ ...(await dryRun({ text: userMessage })), duration_ms: 0 }).toEqual({ ...shown, duration_ms: 0 });

  const response = await gateway.call(paths.chat, bodyOf('chat', 'chat', { user: 'ada' }), recall);
  await response.text();
  expect(response.headers.get(recalledHeader)).toBe(shownIds.join());
  expect(JSON.parse(systemOf(gateway))[1]).toEqual([{ role: 'system', content: shown.block }]);
});

test('returns an empty result for a recall dry run if nothing matches', async () => {
  const gateway = await lend();
  const nothing = { block: null, memories: [], left_out: [] };
  const body = { text: userMessage, dry_run: true };
  expect(await expectJson(send(gateway, 'POST', '/recall', body), 200)).toMatchObject({ enabled: true, ...nothing });
  await remember(gateway);
  const silent = { messages: [{ role: 'system', content: userMessage }], dry_run: true };
  expect(await expectJson(send(gateway, 'POST', '/recall', silent), 200)).toMatchObject({ query: null, ...nothing });
  const nested = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
  for (const message of [nested, `{"role":"user","content":${nested}}`]) {
    const deep = `{"dry_run": true, "messages": [${message}]}`;
    expect(await expectJson(send(gateway, 'POST', '/recall', deep), 200)).toMatchObject({ query: null, ...nothing });
  }
  for (const wrong of [{ text: 'x' }, { text: 'x', dry_run: false }, { dry_run: true }, { ...body, messages: [] }])
    await expectPlain(send(gateway, 'POST', '/recall', wrong), 422);
  expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}/memory`, { enabled: false })).status).toBe(200);
  await eventually(async () =>
    expect(await expectJson(send(gateway, 'POST', '/recall', body), 200)).toMatchObject({ enabled: false, ...nothing }),
  );
});

test('reranks memories with the memory-rerank model', async () => {
  const gateway = await lend();
  const long = await remember(
    gateway,
    'People who drink tea in the morning read one or two newspapers before they leave for work at eight',
  );
  const short = await remember(gateway, 'Tea in the morning');
  const ask = async (tiers: object, more: object): Promise<string | null> => {
    expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers })).status).toBe(200);
    const response = await gateway.call(paths.chat, bodyOf('chat', 'chat', more), recall);
    await response.text();
    return response.headers.get(recalledHeader);
  };
  const order = [await ask({}, {}), await ask({ 'memory-rerank': ['one/fail-500'] }, { top_p: 0.9 })];
  expect(order).toEqual([`${long},${short}`, `${long},${short}`]);
  await eventually(async () => expect(await ask({ 'memory-rerank': ['one/ranker'] }, { top_p: 0.8 })).toBe(`${short},${long}`));
  const calls = (await callsOf(gateway)) as readonly { source?: string; route?: string; outcome: string; cost: number }[];
  expect(calls.filter(({ route }) => route === 'rerank').map(({ source, outcome, cost }) => [source, outcome, cost])).toEqual(
    expect.arrayContaining([
      ['gateway-memory', 'ok', 0.001],
      ['gateway-memory', 'failed', 0],
    ]),
  );
});

async function withCeilings(gateway: TestGateway, ceilings: Record<string, number>): Promise<TestGateway['call']> {
  const issued = await gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'narrow', ceilings });
  const { key } = await jsonOf<{ key: string }>(issued);
  return (path, body, headers) => gateway.call(path, body, { authorization: `Bearer ${key}`, ...headers });
}

test.each(['calls', 'cost', 'rpm', 'tpm'])('skips the recall embedding if the key has reached its %s ceiling', async (ceiling) => {
  const gateway = await lend();
  await remember(gateway);
  const call = await withCeilings(gateway, { [ceiling]: 0 });
  const before = gateway.vendor.requests().length;
  expect((await call(paths.chat, bodyOf('chat', 'chat'), recall)).status).toBe(429);
  expect(gateway.vendor.requests()).toHaveLength(before);
  expect(await callsOf(gateway)).toEqual([]);
});

test('skips the recall embedding if the rpm ceiling has room for only one more call', async () => {
  const gateway = await lend();
  await remember(gateway);
  const call = await withCeilings(gateway, { rpm: 1 });
  expect((await call(paths.chat, bodyOf('chat', 'chat'), recall)).status).toBe(200);
  expect(systemOf(gateway)).toContain('oolong');
  expect((await call(paths.chat, bodyOf('chat', 'chat', { top_p: 1 }), recall)).status).toBe(429);
  expect((await callsOf(gateway)).map((row) => (row as { route?: string }).route)).toEqual(['chat']);
});

test("doesn't count a recall embedding against the calls ceiling", async () => {
  const gateway = await lend();
  await remember(gateway);
  const call = await withCeilings(gateway, { calls: 2, cost: 1 });
  const ask = async (more: object = {}): Promise<string> => {
    const response = await call(paths.chat, bodyOf('chat', 'chat', more), recall);
    await response.text();
    return response.headers.get('x-gateway-cache') ?? String(response.status);
  };
  expect([await ask(), await ask(), await ask()]).toEqual(['miss', 'hit', 'hit']);
  const { key } = await jsonOf<{ key: { ceilings: Record<string, { used: number }> } }>(call('/status/peek'));
  expect(key.ceilings.calls).toMatchObject({ used: 1, remaining: 1 });
  expect([await ask({ top_p: 1 }), await ask({ top_p: 0.9 })]).toEqual(['miss', '429']);
  const rows = (await callsOf(gateway)).map((row) => (row as { route?: string }).route);
  expect(rows.filter((route) => route === 'embeddings')).toHaveLength(4);
});

test('recalls no memories if the tpm ceiling has no room for them', async () => {
  const gateway = await lend();
  await remember(gateway);
  const body = bodyOf('chat', 'chat', { max_tokens: 100 });
  const bytes = Buffer.byteLength(JSON.stringify(body));
  const running = { ...bodyOf('chat', 'chat', { max_tokens: 100 }), model: `${vendors.chat}/hang`, stream: true };
  const reserved = Buffer.byteLength(JSON.stringify(running)) + 100;
  const issued = await gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, {
    name: 'narrow',
    // The embedding would use budget that the call needs, so it is skipped too.
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

test("doesn't apply content rules to recalled memories", async () => {
  const gateway = await lend();
  await remember(gateway, 'Tea is ordered from tea@example.com in the morning');
  const rules = [{ class: 'email', place: 'input', action: 'block' }];
  expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, { rules })).status).toBe(200);
  const response = await gateway.call(paths.chat, bodyOf('chat', 'chat'), recall);
  expect(response.status).toBe(200);
  expect(lastRequest(gateway).text).toContain('tea@example.com');
});

test.each([
  ['hangs', 'embed: [one/hang]'],
  ['fails', 'embed: [one/fail-500]'],
  ['cannot be reached', 'embed: [dead/x]'],
  ['is not configured', 'other: [one/echo]'],
])('recalls memories by text search before the deadline if the embedding vendor %s', async (_name, tier) => {
  await withGateway({ database: 'any', yaml: yaml(tier) }, async (gateway) => {
    await remember(gateway);
    const response = await gateway.call(paths.chat, bodyOf('chat', 'chat'), { ...recall, 'x-gateway-timeout-ms': '6000' });
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('You said')]);
    expect(systemOf(gateway)).toContain('oolong');
  });
});

test.each(['fails', 'hangs'] as const)('serves the call without memories if the database %s', async (how) => {
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
  // A hanging statement would block PGlite's only session.
  await withGateway({ yaml: yaml('embed: [one/embedder]', 700), wrapDatabase, database: 'server' }, async (gateway) => {
    await remember(gateway);
    await (await gateway.call(paths.chat, bodyOf('chat', 'chat'))).text();
    isBroken = true;
    const response = await gateway.call(paths.chat, bodyOf('chat', 'chat', { top_p: 1 }), recall);
    expect([response.status, await jsonOf(response)]).toEqual([200, expect.objectContaining({ choices: expect.anything() })]);
    expect(lastRequest(gateway).text).not.toContain('oolong');
    isBroken = false;
    letGo(new Error('the test is over'));
  });
});
