/** Erases a subject end to end. Nothing about the subject can be left anywhere, and other data can't change. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { newId } from '../../src/core/ids.ts';
import { encodeFrame } from '../../src/journal/frame.ts';
import { deleteEmptyErasures } from '../../src/memory/erasure/delete-empty.ts';
import { findTablesHolding } from '../memory/find-text.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { onBothDatabases } from './both-databases.ts';
import { expectCode, expectJson, getTexts, saveItem, search, send } from './memory-routes.ts';

interface Receipt {
  readonly id: string;
  readonly subject_sha256: string;
  readonly erased_at: string;
  readonly deleted: Readonly<Record<string, number>>;
  readonly workflows: { readonly id: string; readonly state: string };
}

const nothing = {
  memories: 0,
  profile_pages: 0,
  episodes: 0,
  calls: 0,
  call_parts: 0,
  graph_facts: 0,
  cache_entries: 0,
  queued_messages: 0,
};

const erase = (gateway: TestGateway, subject: string): Promise<Receipt> =>
  expectJson(send(gateway, 'DELETE', `/subjects/${encodeURIComponent(subject)}`), 200);

async function chat(gateway: TestGateway, messages: unknown, headers: Record<string, string>, more: object = {}): Promise<string> {
  const response = await gateway.call('/v1/chat/completions', { model: 'one/echo', messages, ...more }, headers);
  const text = await response.text();
  expect([response.status, text]).toEqual([200, expect.any(String)]);
  return text;
}

const says = (content: string): unknown[] => [{ role: 'user', content }];

async function projectIdOf({ database, project }: TestGateway): Promise<string> {
  const [row] = await database.query<{ id: string }>(`select id from projects where slug = $1::text`, [project]);
  return row?.id ?? '';
}

/** Stores what learning derives from a subject: a profile, and a fact between two entities. */
async function plantKnowledge(gateway: TestGateway, subject: string | null, text: string): Promise<void> {
  const { database } = gateway;
  const projectId = await projectIdOf(gateway);
  const [one, other] = [newId(1), newId(2)];
  await database.query(`insert into memory_pages (project_id, kind, subject, text) values ($1::uuid, $2::text, $3::text, $4::text)`, [
    projectId,
    subject === null ? 'knowledge' : 'profile',
    subject,
    text,
  ]);
  for (const [id, name] of [
    [one, `${text} one`],
    [other, `${text} other`],
  ]) {
    await database.query(
      `insert into memory_entities (id, project_id, subject, name, folded_name) values ($1::uuid, $2::uuid, $3::text, $4::text, lower($4::text))`,
      [id, projectId, subject, name],
    );
  }
  await database.query(
    `insert into memory_facts (id, project_id, subject, source_id, relation, target_id, fact, lexemes, evidence, valid_from)
     values ($1::uuid, $2::uuid, $3::text, $4::uuid, 'knows', $5::uuid, $6::text, to_tsvector($6::text), $6::text, now())`,
    [randomUUID(), projectId, subject, one, other, text],
  );
}

onBothDatabases('erasing a subject', (database, testOnAny) => {
  const shared = shareGateway({ database, cache: true });

  test('deletes all stored data of the subject and reports the counts', async () => {
    const gateway = await shared().withProject('erase-all');
    const [mine, theirs] = ['Ada / ünïcode % subject', 'Bob subject'];
    const of = (subject: string, more: object = {}): Record<string, string> => ({
      'x-gateway-memory-subject': Buffer.from(subject).toString('latin1'),
      'x-gateway-task-id': `task of ${subject === mine ? 'zanzibarium' : 'kept'}`,
      ...more,
    });
    // Four calls of the subject: a dialogue of two with a shared beginning, a stream, and one with memory off.
    const first = [...says('zanzibarium one'), { role: 'assistant', content: 'zanzibarium two' }];
    await chat(gateway, first.slice(0, 1), of(mine));
    await chat(gateway, [...first, ...says('zanzibarium three')], of(mine));
    await chat(gateway, says('zanzibarium four'), of(mine), { stream: true });
    await chat(gateway, [{ role: 'system', content: 'zanzibarium' }, ...says('zanzibarium five')], of(mine, { 'x-gateway-memory': 'off' }));
    // These have the subject in the body, use another route, or are a cache hit.
    const named = { model: 'three/echo', max_tokens: 99, metadata: { user_id: mine }, messages: says('zanzibarium six') };
    for (const _ of [1, 2]) await (await gateway.call('/v1/messages', named)).text();
    // Other callers send identical messages in the same order, so that parts are shared.
    await chat(gateway, says('a shared beginning'), of(mine));
    await chat(gateway, says('a shared beginning'), of(theirs), { temperature: 0.5 });
    await chat(gateway, says('of nobody'), {});
    const item = await saveItem(gateway, { text: 'zanzibarium is liked', subject: mine });
    await expectJson(send(gateway, 'PATCH', `/items/${item.id}`, { text: 'zanzibarium is loved' }), 200);
    const removed = await saveItem(gateway, { text: 'zanzibarium is removed', subject: mine });
    await expectJson(send(gateway, 'DELETE', `/items/${removed.id}`), 200);
    await saveItem(gateway, { text: 'a shared beginning is kept', subject: theirs });
    await saveItem(gateway, { text: 'a shared beginning of the project' });
    await plantKnowledge(gateway, mine, 'zanzibarium');
    await plantKnowledge(gateway, theirs, 'kept');
    await plantKnowledge(gateway, null, 'kept of the project');
    expect((await search(gateway, { query: 'zanzibarium', subject: mine })).memories).toHaveLength(1);

    const receipt = await erase(gateway, mine);
    expect(receipt).toEqual({
      object: 'memory.erasure',
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      subject_sha256: createHash('sha256').update(mine).digest('hex'),
      erased_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      deleted: {
        memories: 3,
        profile_pages: 1,
        episodes: expect.any(Number),
        calls: 7,
        call_parts: expect.any(Number),
        graph_facts: 1,
        cache_entries: 6,
        queued_messages: 0,
      },
      workflows: { id: `erasure/${receipt.id}`, state: 'queued', purged: 0, text_in_history: false },
    });
    expect(receipt.deleted.episodes).toBeGreaterThan(0);
    expect(receipt.deleted.call_parts).toBeGreaterThanOrEqual(10);

    expect(await findTablesHolding(gateway.database, 'zanzibarium')).toEqual([]);
    expect(await findTablesHolding(gateway.database, 'ünïcode')).toEqual([]);
    // Responses and logs do not contain it either.
    expect(JSON.stringify(receipt) + gateway.logs.join('')).not.toMatch(/zanzibarium|ünïcode/);
    const calls = await callsOf(gateway);
    expect(calls).toHaveLength(9);
    const kept = calls as unknown as { subject_sha256: string | null; task_id: string | null; cost: number; tokens: { input: number } }[];
    expect(kept.map(({ task_id }) => task_id).filter((task) => task !== null)).toEqual(['task of kept']);
    expect(kept.filter(({ subject_sha256 }) => subject_sha256 !== null)).toHaveLength(1);
    expect(kept.reduce((sum, { tokens }) => sum + tokens.input, 0)).toBeGreaterThan(9);

    const result = await search(gateway, { query: 'shared beginning', subject: theirs });
    expect(getTexts(result).sort()).toEqual(['a shared beginning is kept', 'a shared beginning of the project']);
    expect(result.episodes).toHaveLength(1);
    const episode = await expectJson<{ text: string }>(send(gateway, 'GET', `/episodes/${result.episodes[0]?.id}`), 200);
    expect(episode.text).toContain('user: a shared beginning');
    for (const subject of [theirs, undefined]) {
      const { facts } = await expectJson<{ facts: { fact: string }[] }>(send(gateway, 'POST', '/graph', { subject }), 200);
      expect(facts.map(({ fact }) => fact).sort()).toEqual(['kept', 'kept of the project']);
    }
    // Every part belongs to a call, and every call has its parts.
    const orphans = await gateway.database.query(
      `select 1 from parts part where not exists (select 1 from parts child where child.project_id = part.project_id and child.parent_hash = part.hash)
          and not exists (select 1 from call_texts text where text.project_id = part.project_id
                             and part.hash in (text.last_hash, text.context_hash, text.extras_hash))`,
    );
    expect(orphans).toEqual([]);

    expect((await erase(gateway, mine)).deleted).toEqual(nothing);
    expect((await erase(gateway, 'nobody ever')).deleted).toEqual(nothing);
  });

  test('keeps data about the subject that arrives after the erasure', async () => {
    const [gateway, other] = [await shared().withProject('erase-then'), await shared().withProject('erase-other')];
    for (const each of [gateway, other]) {
      await saveItem(each, { text: 'the number is seven', subject: 'u' });
      await plantKnowledge(each, 'u', 'likes seven');
    }
    expect((await erase(gateway, 'u')).deleted).toEqual({ ...nothing, memories: 1, profile_pages: 1, graph_facts: 1 });
    const pages = await gateway.database.query('select text from memory_pages where project_id = $1::uuid', [await projectIdOf(other)]);
    expect(pages).toEqual([{ text: 'likes seven' }]);
    await saveItem(gateway, { text: 'the number is eight', subject: 'u' });
    await chat(gateway, says('the number is nine'), { 'x-gateway-memory-subject': 'u' });
    expect(getTexts(await search(gateway, { query: 'number', subject: 'u' }))).toEqual(['the number is eight']);
    expect((await search(gateway, { query: 'nine', subject: 'u' })).episodes).toHaveLength(1);
    expect(getTexts(await search(other, { query: 'number', subject: 'u' }))).toEqual(['the number is seven']);
    expect((await erase(gateway, 'u')).deleted).toMatchObject({ memories: 1, calls: 1, call_parts: 2, episodes: 1 });
  });

  testOnAny('erases a long dialogue in batches', async () => {
    const gateway = await shared().withProject('erase-long');
    const history = Array.from({ length: 700 }, (_value, at) => ({ role: at % 2 ? 'assistant' : 'user', content: `message ${at}` }));
    for (const length of [301, 699]) await chat(gateway, history.slice(0, length), { 'x-gateway-memory-subject': 'long' });
    expect((await erase(gateway, 'long')).deleted).toMatchObject({ calls: 2, call_parts: 701, episodes: 2 });
    const [left] = await gateway.database.query<{ parts: number }>(
      `select count(*)::integer as parts from parts where project_id = $1::uuid`,
      [await projectIdOf(gateway)],
    );
    expect(left).toEqual({ parts: 0 });
  });

  test('keeps the receipt of an erasure that only deleted a quarantined file', async () => {
    const gateway = await shared().withProject('erase-quarantined');
    const folder = join(gateway.dataDir, 'journal', 'quarantine');
    await mkdir(folder, { recursive: true });
    const call = { projectId: await projectIdOf(gateway), memory: { subject: 'quin' } };
    await writeFile(join(folder, 'a.record'), Buffer.concat(encodeFrame(JSON.stringify(call), null)));
    const path = `/provision/teams/${gateway.project}/erasures/${(await erase(gateway, 'quin')).id}`;
    await eventually(async () => expect(await jsonOf(gateway.admin('GET', path))).toMatchObject({ processes: { drained: 1 } }));
    expect(await readdir(folder)).toEqual([]);
    await gateway.database.query(`update erasures set state = 'done' where project_id = $1::uuid`, [call.projectId]);
    await deleteEmptyErasures(gateway.database, { now: () => Date.now() + 31 * 24 * 3_600_000 });
    expect(await jsonOf(gateway.admin('GET', path))).toMatchObject({ deleted: nothing });
  });

  test('lists erasures for operators, newest first', async () => {
    const gateway = await shared().withProject('erase-report');
    await saveItem(gateway, { text: 'one', subject: 'x' });
    const { id } = await erase(gateway, 'x');
    await erase(gateway, 'y');
    const path = `/provision/teams/${gateway.project}/erasures`;
    const { data } = await jsonOf<{ data: { id: string; asked_by: string; deleted: { memories: number } }[] }>(gateway.admin('GET', path));
    expect(data.map(({ deleted }) => deleted.memories)).toEqual([0, 1]);
    await eventually(async () =>
      expect(await jsonOf(gateway.admin('GET', `${path}/${id}`))).toEqual({
        ...data[1],
        processes: { told: 1, drained: 1 },
      }),
    );
    expect(data[1]?.asked_by).toMatch(/^key:[a-z0-9]{8}$/);
    expect((await gateway.admin('GET', `${path}/${randomUUID()}`)).status).toBe(404);
    expect((await gateway.admin('GET', `${path}/x`)).status).toBe(400);
    expect((await gateway.admin('GET', `${path}?limit=0`)).status).toBe(400);
    const elsewhere = await shared().withProject('erase-elsewhere');
    expect((await elsewhere.admin('GET', `/provision/teams/${elsewhere.project}/erasures/${id}`)).status).toBe(404);
  });
});

describe('an erasure request without a valid subject', () => {
  const shared = shareGateway({ database: 'any' });

  test.each([
    ['empty', ''],
    ['not percent-encoded UTF-8', '%ff'],
    ['an incomplete encoding', '%e4'],
    ['an invalid encoding', '%zz'],
    ['a control character', 'a%0Ab'],
    ['U+0000', '%00'],
    ['more than 256 characters', 'x'.repeat(257)],
    ['two segments', 'a/b'],
    ['a trailing slash', 'a/'],
    ['an unencoded question mark: the subject before it is kept', 'a?b'],
    ['a subject in the query instead of the path', '?subject=a'],
    ['no subject in the query', '?subject='],
    ['more than the subject in the query', '?subject=.&subject=a'],
  ])('returns 400 for an erasure with an invalid subject: %s', async (_title, encoded) => {
    const gateway = shared();
    await saveItem(gateway, { text: 'stays', subject: 'a' });
    await expectCode(send(gateway, 'DELETE', `/subjects/${encoded}`), 400, 'bad_request');
    expect((await search(gateway, { query: 'stays', subject: 'a' })).memories.length).toBeGreaterThan(0);
  });

  test('returns 401 for an erasure without a key, even if the URL is malformed', async () => {
    for (const encoded of ['a', '', '%ff']) {
      const response = await fetch(`${shared().url}/v1/memory/subjects/${encoded}`, { method: 'DELETE' });
      expect(response.status).toBe(401);
    }
  });

  test('accepts a subject of 256 characters in any language', async () => {
    for (const subject of ['x'.repeat(256), '😀'.repeat(256), 'a b', '%', '..%2f', '?#&=+']) await erase(shared(), subject);
  });

  test('accepts the subjects `.` and `..` in the query of an erasure request', async () => {
    const gateway = shared();
    for (const subject of ['.', '..']) {
      await saveItem(gateway, { text: 'is erased', subject });
      expect(new URL(`/v1/memory/subjects/${encodeURIComponent(subject).replaceAll('.', '%2E')}`, gateway.url).pathname).not.toContain(
        subject,
      );
      for (const [form, memories] of [
        [subject, 1],
        [subject.replaceAll('.', '%2E'), 0],
      ] as const) {
        const receipt = await expectJson<Receipt>(send(gateway, 'DELETE', `/subjects?subject=${form}`), 200);
        expect(receipt).toMatchObject({
          subject_sha256: createHash('sha256').update(subject).digest('hex'),
          deleted: { memories },
        });
      }
    }
  });
});
