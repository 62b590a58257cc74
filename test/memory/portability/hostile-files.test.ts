/** Imports files in which a single field has an extreme value. The format tells us which fields there are. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { line } from '../../../src/memory/portability/format.ts';
import { createImportMemory } from '../../../src/memory/portability/import-memory.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, listConversations, record, settledCall } from '../calls.ts';

type FileRecord = Readonly<Record<string, unknown>> & { readonly type: string };

/** Text without repetitions, which PostgreSQL can't compress. */
const distinct = (length: number, first: number): string =>
  Array.from({ length }, (_, index) => String.fromCodePoint(first + ((index * 7_919 + index * index * 31) % 20_000))).join('');
const han = (length: number): string => distinct(length, 0x4e00);

const subject = distinct(256, 0x20000);
const at = '2026-11-20T10:00:00.123456Z';
const farFuture = '9999-12-31T23:59:59Z';
const maxCount = 1_000_000_000;

/** Returns one record of each type, with all of the fields that it can have. */
function createRecords(): FileRecord[] {
  const [conversation, item, next, old, fact] = Array.from({ length: 5 }, () => randomUUID());
  const ended = randomUUID();
  const ofItem = { subject, kind: 'fact', importance: 3, pinned: false, origin: 'agent', author: 'key:a', created_at: at, updated_at: at };
  const ofFact = {
    subject,
    source: 'Ada',
    relation: 'works_at',
    target: 'Acme',
    fact: 'Ada works at Acme',
    created_at: at,
    valid_from: at,
  };
  return [
    { type: 'conversation', id: conversation, source: 'app', subject, calls: 1, learnable: true, started_at: at, last_turn_at: at },
    { type: 'message', conversation, position: 0, role: 'user', text: 'Hello', created_at: at },
    { type: 'message', conversation, position: 1, role: 'assistant', text: 'Hi', starts: false, call: randomUUID(), created_at: at },
    { ...ofItem, type: 'item', id: item, text: 'Ada works at Acme', state: 'live', useful: 1, wrong: 1, wrong_overruled: 1, conversation },
    { ...ofItem, type: 'item', id: next, text: 'Ada works', state: 'live', evidence: 'I work' },
    { ...ofItem, type: 'item', id: old, text: 'Ada is at work', state: 'closed', closed_at: at },
    { type: 'vote', item, voter: 'key:a', subject, rating: 'useful', voted_at: at },
    { type: 'succession', item: old, supersedes: next, superseded_by: item },
    { type: 'entity', id: randomUUID(), subject, name: 'Ada', created_at: at },
    { type: 'entity', id: randomUUID(), subject, name: 'Acme', created_at: at },
    { ...ofFact, type: 'fact', id: fact, items: [item], evidence: 'I work at Acme' },
    { ...ofFact, type: 'fact', id: ended, items: [item], valid_to: at },
    { type: 'page', subject, text: 'Ada works at Acme', updated_at: at },
  ];
}

const fields = line.options
  .map(({ shape }) => ({ type: shape.type.value as string, names: Object.keys(shape).filter((name) => name !== 'type') }))
  .filter(({ type }) => type !== 'prompt' && type !== 'end');

describeDatabases('importing a file with extreme values', (database) => {
  const importRecords = (projectId: string, records: readonly FileRecord[], exportedAt = at, restoreErased = false) => {
    const counts = Object.fromEntries([...Map.groupBy(records, ({ type }) => type)].map(([type, list]) => [type, list.length]));
    const header = { type: 'header', format: 'model-gateway-memory', version: 2, project: 'acme', exported_at: exportedAt };
    const text = [header, ...records, { type: 'end', records: counts }].map((each) => JSON.stringify(each)).join('\n');
    async function* chunks() {
      yield Buffer.from(text);
    }
    const request = { projectId, project: 'acme', format: 'gateway', chunks: chunks(), dryRun: false, restoreErased } as const;
    return createImportMemory({ database: database(), clock: systemClock })(request);
  };
  /** Replaces a field in all records of this type that have it, or in all of them if it's optional. */
  const change = (type: string, field: string, value: unknown): FileRecord[] => {
    const records = createRecords();
    const hasField = records.some((each) => each.type === type && field in each);
    return records.map((each) => (each.type === type && (field in each || !hasField) ? { ...each, [field]: value } : each));
  };

  test('adds every record if all values are ordinary', async () => {
    const projectId = await createProject(database());
    const { refusals, counts } = await importRecords(projectId, createRecords());
    expect(refusals).toEqual([]);
    expect([...counts.keys()].toSorted()).toEqual(fields.map(({ type }) => type).toSorted());
  });

  test.each(fields)('either imports or refuses a $type, and names the line', async ({ type, names }) => {
    const projectId = await createProject(database());
    const values = [han(1_000), 'ab '.repeat(300), 2_147_483_647, farFuture, []];
    for (const field of names)
      for (const value of values) {
        const error = await importRecords(projectId, change(type, field, value)).then(
          () => null,
          (thrown: unknown) => thrown,
        );
        if (error !== null) expect(error).toMatchObject({ code: 'bad_request', message: expect.stringMatching(/^line \d+: /) });
      }
  });

  test.each(fields)("doesn't import a $type with a time in the far future", async ({ type, names }) => {
    const times = names.filter((name) => /_at$|^valid_/.test(name));
    for (const field of times) {
      const projectId = await createProject(database());
      const { refusals } = await importRecords(projectId, change(type, field, farFuture));
      const own = refusals.filter((refusal) => refusal.type === type);
      expect([field, own[0]?.reason]).toEqual([field, 'its time is in the future']);
    }
  });

  test('rejects memories that are hard to index', async () => {
    const projectId = await createProject(database());
    await expect(importRecords(projectId, change('item', 'text', 'ﷺ'.repeat(2_000)))).rejects.toMatchObject({
      ...{ code: 'bad_request', message: expect.stringContaining('text: has too many characters that stand for whole words') },
    });
  });

  test('accepts counts only if they leave room to count on', async () => {
    const [projectId, other] = [await createProject(database()), await createProject(database())];
    for (const [type, field] of [
      ['conversation', 'calls'],
      ['item', 'useful'],
      ['item', 'wrong'],
      ['item', 'wrong_overruled'],
    ] as const)
      await expect(importRecords(other, change(type, field, 2_147_483_647))).rejects.toMatchObject({
        ...{ code: 'bad_request', message: expect.stringContaining(`${field}: `) },
      });
    const records = change('item', 'useful', maxCount).map((each) => (each.type === 'conversation' ? { ...each, calls: maxCount } : each));
    await importRecords(
      projectId,
      records.map((each) => (each.type === 'item' ? { ...each, wrong: maxCount } : each)),
    );
    const [item] = await database().query<{ id: string }>(`select id from memory_items where project_id = $1::uuid and state = 'live'`, [
      projectId,
    ]);
    const items = createItems({ database: database(), clock: systemClock });
    for (const rating of ['useful', 'wrong'] as const) await items.rate(projectId, item?.id ?? '', rating);
    await record(database(), [
      settledCall({ projectId, subject, source: 'app', body: chatBody('u Hello', 'a Hi', 'u One more'), answer: 'Yes' }),
    ]);
    expect((await listConversations(database(), projectId)).map(({ lines }) => lines.length)).toEqual([4]);
  });

  test('checks for erased subjects even if the clock of the exporting gateway was ahead', async () => {
    const projectId = await createProject(database());
    const records = createRecords();
    await createErase({ database: database(), clock: systemClock })({ projectId, subject, askedBy: 'key:a' });
    const { counts } = await importRecords(projectId, records, '2099-01-01T00:00:00Z');
    for (const [type, row] of counts) expect([type, row.added]).toEqual([type, 0]);
    expect((await importRecords(projectId, records, '2099-01-01T00:00:00Z', true)).refusals).toEqual([]);
  });
});
