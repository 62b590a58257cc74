/** Tests the list of end users, and the page that says what the gateway knows about one of them. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { newId } from '../../src/core/ids.ts';
import { hashSubjectHex } from '../../src/core/subject.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { type CallChanges, settledCall } from '../journal/calls.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { shareGateway } from '../support/gateway.ts';
import { type MemorySamples, storeMemorySamples } from '../support/memory-samples.ts';
import { textOf } from '../support/page-text.ts';

const gateway = shareGateway({ database: 'any' });
const base = '/console/p/acme';
const ann = 'ann & co/7 %2F';
let owner: SignedIn;
let member: SignedIn;
let projectId: string;
let samples: MemorySamples;

const hashPathOf = (subject: string): string => `${base}/end-users?sha256=${hashSubjectHex(subject)}`;
const pathOf = (subject: string): string => `${base}/end-users/${encodeURIComponent(subject)}`;
const idIn = (response: Response): string => response.headers.get('location')?.split('/').at(-1) ?? '';
const write = async (text: string, subject: string, pinned = false): Promise<string> =>
  idIn(await member.post(`${base}/memory`, { text, subject, kind: 'fact', importance: '3', ...(pinned && { pinned: 'on' }) }));
const listed = async (query = ''): Promise<string[]> => {
  const page = await (await member.get(`${base}/end-users${query}`)).text();
  return [...page.matchAll(/row-link" href="[^"]*\/end-users[/?]([^"]*)"/g)].map(([, text = '']) => decodeURIComponent(text));
};

async function storeCallsOf(subject: string, count: number, changes: CallChanges = {}): Promise<void> {
  const calls = Array.from({ length: count }, (_, index) => {
    const startedAt = (changes.metadata?.startedAt ?? Date.UTC(2026, 10, 1)) + index * 60_000;
    const memory = { mode: 'off', explicitWrite: false, subject } as const;
    return settledCall({ ...changes, metadata: { projectId, ...changes.metadata, id: newId(startedAt), startedAt, memory } });
  });
  await gateway().database.transaction((tx) => storeCalls(tx, calls));
}

beforeAll(async () => {
  const { app, database } = gateway();
  projectId = (await app.projects.findBySlug('acme'))?.id ?? '';
  [owner, member] = [await signIn(gateway(), 'owner', 'Olga'), await signIn(gateway(), 'member', 'Mia')];
  samples = await storeMemorySamples(database, { projectId, subject: ann, mark: 'x', author: `person:${owner.personId}` });
});

describe('the page of a single end user', () => {
  test('shows how much data is stored about an end user, and the newest items of each kind', async () => {
    await storeCallsOf(ann, 3, { result: { costNanos: 500_000_000 } });
    await storeCallsOf(ann, 1, {
      metadata: { startedAt: Date.UTC(2026, 10, 5) },
      result: { outcome: 'failed', status: 502, costNanos: null },
    });
    const pinned = await write('Ann pins this', ann, true);
    const removed = await write('Ann removed this', ann);
    await member.post(`${base}/memory/${removed}/remove`);
    const page = await (await member.get(pathOf(ann))).text();
    const text = await textOf(member.get(pathOf(ann)));
    expect(text).toContain(`End user ${ann}`);
    expect(text).toMatch(/Calls 4 1 error, \d with stored text/);
    expect(text).toMatch(/Spend \$1\.50 1 has no price/);
    expect(text).toMatch(/ Memories \d 2 pinned Closed memories 1 /);
    expect(text).toMatch(/Conversations 2 Facts 1 /);
    expect(text).toMatch(/First seen 2026-11-01 00:00:00/);
    expect(text).toContain(hashSubjectHex(ann));
    expect(text).toMatch(
      /Pinned memories .*Ann pins this.*Newest memories .*Ann likes tea x.*Newest conversations.*Newest calls.*Newest facts/,
    );
    for (const href of [`/memory/${pinned}`, `/memory/${samples.learnedId}`, `/conversations/${samples.conversationId}`])
      expect(page).toContain(`href="${base}${href}"`);
    expect(page).not.toContain(`${base}/memory/${removed}"`);
  });

  test("links each count on an end user's page to the list of items", async () => {
    const page = (await (await member.get(pathOf(ann))).text()).replaceAll('&amp;', '&');
    const linkOf = (label: string): string => new RegExp(`class="row-link" href="([^"]*)">${label}<`).exec(page)?.[1] ?? '';
    const rowsOf = async (label: string): Promise<number> =>
      (await (await member.get(linkOf(label))).text()).split('<tr class="linked"').length - 1;
    expect(await rowsOf('Calls')).toBe(4);
    expect(await rowsOf('Closed memories')).toBe(1);
    expect(await rowsOf('Conversations')).toBe(2);
    expect(await textOf(member.get(linkOf('Spend')))).toContain('End user:');
  });

  test("lets only project owners download or erase an end user's data", async () => {
    expect(await (await member.get(pathOf(ann))).text()).not.toMatch(/Erase<|Download what is stored/);
    const page = await (await owner.get(pathOf(ann))).text();
    expect(page).toContain(`href="${base}/erase?subject=ann+%26amp%3B`.replace('%26amp%3B', '%26'));
    expect(page).toContain(`action="${base}/erase/export"`);
    expect((await member.post(`${base}/erase/export`, { subject: ann })).status).toBe(403);
    const exported = await owner.post(`${base}/erase/export`, { subject: ann });
    expect(await exported.text()).toContain('Ann pins this');
  });

  test('counts only the newest 1,000 calls of an end user', async () => {
    await storeCallsOf('busy', 1_003, { result: { costNanos: 10_000_000 } });
    const text = await textOf(member.get(pathOf('busy')));
    expect(text).toMatch(/Calls 1,000\+ 0 errors/);
    expect(text).toContain('Spend $10.00 of the newest 1,000 calls');
  });

  test("shows an end user's calls even if only the hash of the id is stored", async () => {
    await storeCallsOf('unnamed', 2);
    const text = await textOf(member.get(hashPathOf('unnamed')));
    expect(text).toContain(`End user ${hashSubjectHex('unnamed').slice(0, 16)}…`);
    expect(text).toMatch(/Calls 2 0 errors/);
    expect(text).not.toContain('Closed memories');
    expect(await textOf(member.get(pathOf('unnamed')))).toMatch(/Calls 2 0 errors, 0 with stored text/);
  });

  test('says that nothing is stored about an unknown end user', async () => {
    for (const subject of ['nobody', `sha256:${'0'.repeat(64)}`]) {
      expect(await textOf(owner.get(pathOf(subject)), 404)).toMatch(/Download what is stored.*Nothing is stored about this end user/);
      expect(await textOf(member.get(pathOf(subject)), 404)).not.toContain('Download what is stored');
    }
    expect((await member.get(hashPathOf('nobody'))).status).toBe(404);
    expect((await member.get(`${base}/end-users?sha256=${'g'.repeat(64)}`)).status).toBe(404);
    expect((await member.get(`${base}/end-users/${'x'.repeat(300)}`)).status).toBe(404);
    expect((await member.get(`${base}/end-users/a%0Ab`)).status).toBe(404);
  });

  test('shows an end user who only has outdated facts, entities, ratings or passages', async () => {
    const { database, admin } = gateway();
    await database.query(
      `insert into memory_facts (id, project_id, subject, source_id, relation, target_id, fact, lexemes, valid_from, valid_to)
       select gen_random_uuid(), project_id, 'zz-ended', source_id, relation, target_id, 'ended', '', valid_from, now() - interval '1 hour'
         from memory_facts where project_id = $1::uuid and subject = $2::text limit 1`,
      [projectId, ann],
    );
    await database.query(
      `insert into memory_entities (id, project_id, subject, name, folded_name) values (gen_random_uuid(), $1::uuid, 'zz-entity', 'Zoe', 'zoe')`,
      [projectId],
    );
    await database.query(
      `insert into memory_votes (item_id, voter, project_id, subject, useful, voted_at)
       select id, 'test', project_id, 'zz-vote', true, now() from memory_items where project_id = $1::uuid limit 1`,
      [projectId],
    );
    await database.query(
      `insert into memory_passages (project_id, subject, conversation_id, text, lexemes) values ($1::uuid, 'zz-passage', $2::uuid, 'x', '')`,
      [projectId, samples.conversationId],
    );
    expect(await textOf(member.get(pathOf('zz-ended')))).toMatch(/Facts 0 1 ended/);
    for (const subject of ['zz-ended', 'zz-entity', 'zz-vote', 'zz-passage']) {
      expect(await textOf(member.get(pathOf(subject)))).not.toContain('Nothing is stored');
      const shown = await admin('GET', `/provision/teams/acme/end-users/${subject}`);
      const facts = { count: 0, has_more: false };
      expect(await shown.json()).toMatchObject({ facts, ended_facts: { ...facts, count: subject === 'zz-ended' ? 1 : 0 } });
    }
  });

  test("doesn't confuse an end user whose id looks like a hash with another end user", async () => {
    await storeCallsOf('victim', 1);
    const lookalike = `sha256:${hashSubjectHex('victim')}`;
    expect(await textOf(member.get(pathOf(lookalike)), 404)).toContain(`End user ${lookalike}`);
    await write('Looks like a hash', lookalike);
    expect(await textOf(member.get(pathOf(lookalike)))).toMatch(/Calls 0 .*Looks like a hash/);
    expect(await textOf(member.get(hashPathOf('victim')))).toMatch(/the latest ones have no stored text that names it.*Calls 1 /);
  });

  test('shows "0+" with a link if there are too many items to count', async () => {
    await gateway().database.query(
      `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author)
       select gen_random_uuid(), $1::uuid, 'many', 'x', 'fact', 3, 'person', 'person:1' from generate_series(1, 10000)`,
      [projectId],
    );
    const page = await (await member.get(pathOf('many'))).text();
    expect(page).toMatch(/row-link" href="[^"]*state=closed[^"]*">Closed memories</);
    expect(await textOf(member.get(pathOf('many')))).toContain('Closed memories 0+');
  });

  test('opens the pages of end users whose ids are `.` and `..`', async () => {
    for (const subject of ['.', '..']) {
      await write(`About ${subject}`, subject);
      expect(await listed(`?q=${encodeURIComponent(subject)}`)).toContain(`sha256=${hashSubjectHex(subject)}`);
      expect(await textOf(member.get(hashPathOf(subject)))).toContain(`About ${subject}`);
    }
  });

  test('calls, memories, conversations and facts link to their end user', async () => {
    const response = await gateway().call('/v1/chat/completions', {
      ...{ model: 'one/echo', user: 'linked user' },
      messages: [{ role: 'user', content: 'hello' }],
    });
    await response.arrayBuffer();
    const call = `${base}/calls/${response.headers.get('x-gateway-call-id')}`;
    const linkOf = `href="${pathOf('linked user')}"`;
    expect(await (await member.get(call)).text()).toContain(linkOf);
    const memory = await write('Likes links', 'linked user');
    expect(await (await member.get(`${base}/memory/${memory}`)).text()).toContain(linkOf);
    for (const path of [`/conversations/${samples.conversationId}`, '/graph', `/pages?${new URLSearchParams({ subject: ann })}`])
      expect([path, await (await member.get(base + path)).text()]).toEqual([path, expect.stringContaining(`href="${pathOf(ann)}"`)]);
    await gateway().database.query('delete from call_texts where call_id = $1::uuid', [call.split('/').at(-1)]);
    expect(await (await member.get(call)).text()).toContain(`${hashPathOf('linked user')}"`);
  });

  test("doesn't log the end user's id if the page fails", async () => {
    const { database, logs } = gateway();
    await database.query('alter table memory_facts rename to memory_facts_moved');
    try {
      expect((await member.get(pathOf('secret-user'))).status).toBeGreaterThanOrEqual(500);
    } finally {
      await database.query('alter table memory_facts_moved rename to memory_facts');
    }
    const lines = logs.join('');
    expect(lines).toContain(`${base}/end-users/:subject`);
    expect(lines).not.toContain('secret-user');
  });
});

test('the API reports how much data is stored about an end user', async () => {
  await storeCallsOf('api/user', 2, { result: { costNanos: 250_000_000 } });
  await write('Uses the API', 'api/user', true);
  const get = (subject: string) => gateway().admin('GET', `/provision/teams/acme/end-users/${encodeURIComponent(subject)}`);
  const none = { count: 0, has_more: false };
  const one = { count: 1, has_more: false };
  expect(await (await get('api/user')).json()).toEqual({
    ...{ object: 'end_user', project: 'acme', subject_sha256: hashSubjectHex('api/user') },
    ...{ first_seen_at: '2026-11-01T00:00:00Z', last_seen_at: '2026-11-01T00:01:00Z' },
    calls: { count: 2, has_more: false, errors: 0, cost: 0.5, calls_of_unknown_cost: 0 },
    ...{ memories: one, pinned_memories: one, closed_memories: none, conversations: none, facts: none, ended_facts: none, prompts: none },
    profile_page_updated_at: null,
  });
  expect([(await get('nobody')).status, (await get('x'.repeat(257))).status, (await get('a\nb')).status]).toEqual([404, 400, 400]);
});

describe('the list of all end users', () => {
  beforeAll(async () => {
    const elsewhere = await gateway().withProject('elsewhere');
    const other = await signIn(elsewhere, 'owner');
    await other.post('/console/p/elsewhere/memory', { text: 'x', subject: 'list-elsewhere', kind: 'fact', importance: '3' });
    for (let index = 0; index < 60; index += 1) await write('A fact', `list-${String(index).padStart(2, '0')}`);
    await write('Another', 'list-07');
    await write('In capitals', 'LIST-07');
  });

  test('searches end users by id prefix and paginates the results', async () => {
    const first = await listed('?q=list-');
    expect(first).toEqual(Array.from({ length: 50 }, (_, index) => `list-${String(index).padStart(2, '0')}`));
    const page = (await (await member.get(`${base}/end-users?q=list-`)).text()).replaceAll('&amp;', '&');
    const next = /rel="next" href="[^"]*(\?[^"]*)"/.exec(page)?.[1] ?? '';
    expect(await listed(next)).toEqual(Array.from({ length: 10 }, (_, index) => `list-${index + 50}`));
    expect(await listed('?q=list-07')).toEqual(['list-07']);
    expect(await listed('?q=list-elsewhere')).toEqual([]);
    expect(await textOf(member.get(`${base}/end-users?q=list-07`))).toMatch(/ list-07 0 0 2 Never/);
    expect(await textOf(member.get(`${base}/end-users?q=nobody`))).toContain('No end user’s id begins like this');
  });

  test('finds an end user whose calls only store a hash of the id', async () => {
    await storeCallsOf('hashed-only', 101);
    expect(await listed('?q=hashed-only')).toEqual(['hashed-only']);
    expect(await textOf(member.get(`${base}/end-users?q=hashed-only`))).toMatch(/ hashed-only 100\+ 0 0 /);
    expect(await listed('?q=hashed')).toEqual([]);
  });

  test('end users can be searched from every console page', async () => {
    const locationOf = async (text: string): Promise<string | null> =>
      (await member.get(`${base}/find?${new URLSearchParams({ q: text })}`)).headers.get('location');
    expect(await locationOf('list-07')).toBe(pathOf('list-07'));
    expect(await locationOf('hashed-only')).toBe(pathOf('hashed-only'));
    expect(await locationOf(hashSubjectHex('hashed-only'))).toBe(hashPathOf('hashed-only'));
    const found = await (await member.get(`${base}/find/results?q=list-0`)).text();
    expect([...found.matchAll(/\/end-users\/(list-\d\d)"/g)].map(([, id]) => id)).toEqual(
      Array.from({ length: 7 }, (_, index) => `list-0${index}`),
    );
    expect(found).toMatch(/href="[^"]*\/end-users\?q=list-0"/);
  });
});
