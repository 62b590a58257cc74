/** Exports, erases and imports memory, and compares the rows of each table before and after. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import type { Database } from '../../../src/db/database.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { createErasureSteps } from '../../../src/memory/erasure/erasure-steps.ts';
import { redactErased } from '../../../src/memory/erasure/tombstones.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { saveVotes } from '../../../src/memory/items/votes.ts';
import { createExportMemory } from '../../../src/memory/portability/export-memory.ts';
import { createImportMemory, type ImportReport, type ImportRequest } from '../../../src/memory/portability/import-memory.ts';
import { maxEntryBytes } from '../../../src/memory/portability/read-entries.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, listConversations, markAllRead, putMemorySettings, record, settledCall } from '../calls.ts';
import { createTestLearning, learnEveryMessage, storeReadConversation } from '../learning.ts';

describeDatabases('exporting memory to a file and importing it again', (database, testOnAny) => {
  /** All tests share a project, because it takes a second to fill it. The last two tests delete its rows. */
  let filled: Promise<string> | undefined;
  const getProject = (): Promise<string> => (filled ??= fillProject(database()));
  const exportOf = async (projectId: string, subject: string | null = null): Promise<string> => {
    let text = '';
    for await (const lines of createExportMemory({ database: database() })({ projectId, project: 'acme', subject })) text += lines;
    return text;
  };
  const importInto = (projectId: string, text: string, options: Partial<ImportRequest> = {}): Promise<ImportReport> =>
    createImportMemory({ database: database(), clock: systemClock })({
      ...{ projectId, project: 'acme', format: 'gateway', chunks: chunksOf(text), dryRun: false, restoreErased: false },
      ...options,
    });

  test('runs only one export per project at a time', async () => {
    const exportMemory = createExportMemory({ database: database() });
    const [one, two] = [await createProject(database()), await createProject(database())];
    const exportFrom = (projectId: string) => exportMemory({ projectId, project: 'acme', subject: null });
    const [first, late] = [exportFrom(one), exportFrom(one)];
    expect((await first.next()).value).toContain('"header"');
    const refused = { code: 'budget_unavailable', retryAfterSeconds: 60 };
    expect(() => exportFrom(one)).toThrow(expect.objectContaining(refused));
    await expect(late.next()).rejects.toMatchObject(refused);
    for await (const _ of exportFrom(two));
    await first.return({});
    for await (const _ of exportFrom(one));
    for await (const _ of exportFrom(one));
  });

  testOnAny('assigns new but stable ids to rows imported into another project', async () => {
    const [projectId, other] = [await getProject(), await createProject(database())];
    const file = await exportOf(projectId);
    const before = await rowsOf(database(), projectId);
    await importInto(other, file, { project: 'other' });
    const copy = await rowsOf(database(), other);
    // A stored prompt belongs to a call, and calls aren't imported.
    expect(numbersOf({ ...copy, call_texts: [] })).toEqual(numbersOf({ ...before, call_texts: [] }));
    expect(sumOf(await importInto(other, file, { project: 'other' }), 'added')).toBe(0);
    // The project elsewhere has the same name, but these ids belong to rows of a different project.
    expect(sumOf(await importInto(other, file), 'added')).toBe(0);
    expect(await rowsOf(database(), other)).toEqual(copy);
    expect(await rowsOf(database(), projectId)).toEqual(before);
    const plain = (text: string): string[] =>
      text.split('\n').map((line) => line.replaceAll(/"(?:id|item|conversation|call|fact|supersedes|superseded_by)":"[\w-]{36}",?/g, ''));
    const texts = (text: string): string[] =>
      plain(withoutHeader(text))
        .filter((line) => !line.includes('"items":'))
        .toSorted();
    expect(texts(await exportOf(other))).toEqual(texts(file));
  });

  test('exports and imports texts that exceed the length limit only because of masking', async () => {
    const projectId = await createProject(database());
    const items = createItems({ database: database(), clock: systemClock });
    const text = 'https://a:b@c '.repeat(280).trim();
    const fields = { text, subject: null, kind: 'fact', importance: 3, pinned: false } as const;
    await items.write(projectId, fields, { origin: 'agent', author: 'key:a' });
    const file = await exportOf(projectId);
    await deleteRows(database(), projectId);
    expect(sumOf(await importInto(projectId, file), 'added')).toBe(1);

    const call = randomUUID();
    const [header, conversation, message] = smallFile;
    const answers = [0, 1].map((position) => ({ ...message, position, role: 'assistant', call }));
    const end = { type: 'end', records: { conversation: 1, message: 2 } };
    const lines = [{ ...header, project: 'acme' }, conversation, ...answers, end].map((record) => JSON.stringify(record));
    expect(sumOf(await importInto(projectId, lines.join('\n')), 'added')).toBe(3);
  });

  test('masks credentials in an import, even in the names of applications and authors', async () => {
    const projectId = await createProject(database());
    const secret = ['sk', 'proj', 'Ab1'.repeat(16)].join('-');
    const lines = smallFile.map((record) =>
      JSON.stringify({ ...record, ...('author' in record ? { author: secret } : {}), ...('source' in record ? { source: secret } : {}) }),
    );
    await importInto(projectId, lines.join('\n'));
    expect(await database().query('select source from conversations where project_id = $1::uuid', [projectId])).toEqual([
      { source: '[credential]' },
    ]);
    expect(await database().query('select author from memory_items where project_id = $1::uuid', [projectId])).toEqual([
      { author: '[credential]' },
    ]);
  });

  test('continues an imported conversation with the next call', async () => {
    const projectId = await createProject(database());
    const say = (lines: string[], at: number) =>
      record(database(), [settledCall({ projectId, subject: 'ann', at, body: chatBody(...lines), answer: `answer ${at}` })]);
    await say(['u one'], 1);
    await say(['u one', 'a answer 1', 'u two'], 2);
    await say(['u two', 'a answer 2', 'u three'], 3);
    const file = await exportOf(projectId);
    await deleteRows(database(), projectId);
    await importInto(projectId, file);
    await say(['u three', 'a answer 3', 'u four'], 4);
    await say(['u one', 'a answer 1', 'u two'], 5);
    const conversations = await listConversations(database(), projectId);
    expect(conversations.map(({ lines }) => lines.join(' / '))).toEqual([
      'u one / a answer 1 / u two / a answer 2 / u three / a answer 3 / u four / a answer 4',
      'u one / a answer 1 / u two / a answer 5',
    ]);
  });

  test('exports what is stored about one subject and nothing else', async () => {
    const projectId = await getProject();
    const lines = (await exportOf(projectId, 'ann')).trimEnd().split('\n');
    const records = lines.map((line): Record<string, unknown> => JSON.parse(line));
    const types = [...Map.groupBy(records, ({ type }) => type)].map(([type, list]) => [type, list.length]);
    expect(Object.fromEntries(types)).toMatchObject({ conversation: 3, page: 1, prompt: 2, end: 1 });
    expect(records.filter(({ subject }) => subject !== undefined && subject !== 'ann')).toEqual([]);
    expect(JSON.stringify(records)).not.toMatch(/Bob|project-wide/);
    expect(records.filter(({ type }) => type === 'prompt')).toMatchObject([
      { extras: [{ kind: 'system', text: 'Be brief.' }] },
      {
        messages: [
          { role: 'user', text: 'not recorded' },
          { role: 'assistant', text: 'ok' },
        ],
      },
    ]);
  });

  test.each<[string, (lines: string[]) => string, RegExp]>([
    ['a line that is not JSON', ([first]) => `${first}\n{"type": "item"\n`, /line 2: not valid JSON/],
    ['a record with mistakes', ([first]) => `${first}\n{"type":"page","text":7}\n`, /line 2: text: .*updated_at: /],
    [
      'a record with an id that is not a UUID',
      ([first]) => `${first}\n{"type":"succession","item":"7"}\n`,
      /line 2: item: must be a UUID, but is "7"/,
    ],
    ['an unknown record type', ([first]) => `${first}\n{"type":"other"}\n`, /line 2: type: /],
    ['a message without its conversation', ([first, , second]) => `${first}\n${second}\n`, /line 2: conversation: /],
    [
      'a missing record',
      (lines) => lines.toSpliced(4, 1).join('\n'),
      /line 5: the export had 1 records of type page, but the file contains 0/,
    ],
    ['a line after the end record', (lines) => `${lines.join('\n')}\n{"type":"page"}`, /line 7: nothing may follow the last line/],
    ['a missing header', (lines) => lines.slice(1).join('\n'), /line 1: this is not the header of an export/],
    ['a newer format version', (lines) => lines.join('\n').replace('"version":1', '"version":3'), /line 1: .*version 3 /],
    ['an empty file', () => '\n', /the file is empty/],
  ])('stops the import because of %s', async (_, change, message) => {
    const projectId = await createProject(database());
    const lines = smallFile.map((record) => JSON.stringify(record));
    await importInto(projectId, lines.join('\n'), { dryRun: true });
    await expect(importInto(projectId, change(lines))).rejects.toMatchObject({ code: 'bad_request', message });
  });

  test('rejects an import line of more than 32 MiB without reading all of it into memory', async () => {
    const projectId = await createProject(database());
    async function* endless() {
      for (let bytes = 0; bytes <= maxEntryBytes + 2_000_000; bytes += 1_000_000) yield Buffer.alloc(1_000_000, 'x');
      throw new Error('read on');
    }
    await expect(importInto(projectId, '', { chunks: endless() })).rejects.toMatchObject({ message: /^line 1: longer than/ });
  });

  testOnAny('resumes an interrupted import without adding anything twice', async () => {
    const projectId = await getProject();
    const file = await exportOf(projectId);
    const before = await rowsOf(database(), projectId);
    await deleteRows(database(), projectId);
    for (const share of [0.3, 0.5, 0.7]) {
      const cut = file.slice(0, file.length * share);
      const wholeLines = cut.slice(0, cut.lastIndexOf('\n') + 1);
      await expect(importInto(projectId, wholeLines)).rejects.toMatchObject({ code: 'bad_request', message: /truncated/ });
      await expect(importInto(projectId, '', { chunks: breaking(cut) })).rejects.toThrow('connection lost');
    }
    await importInto(projectId, file);
    expect(await rowsOf(database(), projectId)).toEqual(before);
    const again = await importInto(projectId, file);
    expect([sumOf(again, 'added'), sumOf(again, 'refused')]).toEqual([0, 0]);
    expect(await rowsOf(database(), projectId)).toEqual(before);
  });

  test('restores erased data only on request', async () => {
    const projectId = await getProject();
    const file = await exportOf(projectId);
    const before = await rowsOf(database(), projectId);
    expect(Object.entries(before).filter(([, rows]) => rows.length < 2)).toEqual([]);
    const { id } = await createErase({ database: database(), clock: systemClock })({ projectId, subject: 'ann', askedBy: 'key:a' });
    const erased = await rowsOf(database(), projectId);
    expect(numbersOf(erased)).not.toEqual(numbersOf(before));

    const refused = await importInto(projectId, file);
    expect(refused.refusals.every(({ reason }) => /erased|entity/.test(reason))).toBe(true);
    expect(sumOf(refused, 'added')).toBe(0);
    expect(await rowsOf(database(), projectId)).toEqual(erased);

    const counted = await importInto(projectId, file, { restoreErased: true, dryRun: true });
    expect(await rowsOf(database(), projectId)).toEqual(erased);
    const restored = await importInto(projectId, file, { restoreErased: true });
    expect(restored.refusals).toEqual([]);
    expect(sumOf(restored, 'added')).toBe(sumOf(counted, 'added'));
    expect(await rowsOf(database(), projectId)).toEqual(before);
    expect(withoutHeader(await exportOf(projectId))).toBe(withoutHeader(file));

    const late = settledCall({ projectId, subject: 'ann', body: chatBody('u late'), answer: 'Late.' });
    const [stored] = await database().transaction((tx) => redactErased(tx, [late]));
    expect(stored?.content).toBeNull();
    await createErasureSteps({ database: database(), listLive: async () => [], deleteRuns: async () => undefined }).finish(id);

    // Nothing from before the second erasure is restored, and the prompts of imported messages are deleted too.
    await createErase({ database: database(), clock: systemClock })({ projectId, subject: 'ann', askedBy: 'key:a' });
    expect(await rowsOf(database(), projectId)).toEqual(erased);
  });
});

const at = '2026-11-20T10:00:00.123456Z';
const smallFile = [
  { type: 'header', format: 'model-gateway-memory', version: 1, project: 'elsewhere', exported_at: at },
  { type: 'conversation', id: randomUUID(), source: 'acme', calls: 1, started_at: at, last_turn_at: at },
  { type: 'message', conversation: '', position: 0, role: 'user', text: 'Hello', created_at: at },
  { type: 'item', id: randomUUID(), text: 'Says hello', kind: 'fact', importance: 3, origin: 'person', author: 'person:1', state: 'live' },
  { type: 'page', text: 'Says hello', updated_at: at },
  { type: 'end', records: { conversation: 1, message: 1, item: 1, page: 1 } },
].map((record, _, all) => {
  if (record.type === 'message') return { ...record, conversation: all[1]?.id };
  return record.type === 'item' ? { ...record, created_at: at, updated_at: at } : record;
});

const rowsSql: Readonly<Record<string, string>> = {
  memory_items: `select id, subject, text, kind, importance, pinned, origin, author, state, ratings_useful, ratings_wrong, wrong_overruled, supersedes,
                        superseded_by, conversation_id, evidence, words_sha256, created_at::text, updated_at::text, closed_at::text
                   from memory_items where project_id = $1::uuid`,
  item_passages: `select subject, item_id, kind, text, lexemes::text, words_version from memory_passages where project_id = $1::uuid and item_id is not null`,
  conversation_passages: `select conversation_id, subject, string_agg(text, E'\\n' order by id) from memory_passages
                           where project_id = $1::uuid and conversation_id is not null group by 1, 2`,
  memory_votes: `select item_id, voter, subject, useful, voted_at::text from memory_votes where project_id = $1::uuid`,
  memory_entities: `select id, subject, name, folded_name, created_at::text from memory_entities where project_id = $1::uuid`,
  memory_facts: `select id, subject, source_id, relation, target_id, fact, lexemes::text, words_version, evidence, valid_from::text, valid_to::text,
                        superseded_by, created_at::text from memory_facts where project_id = $1::uuid`,
  memory_fact_items: `select link.* from memory_fact_items link join memory_facts fact on fact.id = link.fact_id where fact.project_id = $1::uuid`,
  memory_pages: `select kind, subject, text, updated_at::text from memory_pages where project_id = $1::uuid`,
  conversations: `select id, source, subject, state, opened, learnable, title, text, calls, messages, batched_messages, tip_key, tip_message_key,
                         started_at::text, last_turn_at::text from conversations where project_id = $1::uuid`,
  conversation_parts: `select slot.* from conversation_parts slot join conversations on conversations.id = conversation_id where project_id = $1::uuid`,
  // Leaves out parts of calls that don't belong to a conversation.
  parts: `select hash, parent_hash, role, content from parts
           where project_id = $1::uuid and hash in (select part_hash from conversation_parts)`,
  // Leaves out other call texts, because an import that's cut off in the middle of a turn stores an additional one.
  call_texts: `select call_id, conversation_id, subject, last_hash, answered from call_texts
                where project_id = $1::uuid and call_id in (select call_id from conversation_parts)`,
};

type Rows = Readonly<Record<string, readonly string[]>>;

async function rowsOf(database: Database, projectId: string): Promise<Rows> {
  const tables: Record<string, readonly string[]> = {};
  for (const [name, text] of Object.entries(rowsSql))
    tables[name] = (await database.query(text, [projectId])).map((row) => JSON.stringify(row)).toSorted();
  return tables;
}

function numbersOf(rows: Rows): Record<string, number> {
  return Object.fromEntries(Object.entries(rows).map(([name, list]) => [name, list.length]));
}

function sumOf({ counts }: ImportReport, outcome: 'added' | 'present' | 'refused'): number {
  return [...counts.values()].reduce((sum, row) => sum + row[outcome], 0);
}

function withoutHeader(file: string): string {
  return file.slice(file.indexOf('\n') + 1);
}

async function* chunksOf(text: string): AsyncGenerator<Uint8Array, void> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 1_000) yield bytes.subarray(at, at + 1_000);
}

async function* breaking(text: string): AsyncGenerator<Uint8Array, void> {
  yield* chunksOf(text);
  throw new Error('connection lost');
}

async function deleteRows(database: Database, projectId: string): Promise<void> {
  for (const table of [
    'memory_passages',
    'memory_facts',
    'memory_entities',
    'memory_pages',
    'memory_items',
    'call_texts',
    'conversations',
    'parts',
  ])
    await database.query(`delete from ${table} where project_id = $1::uuid`, [projectId]);
}

/** Creates records of every kind. They belong to the project, to Ann and to Bob. */
async function fillProject(database: Database): Promise<string> {
  const projectId = await createProject(database);
  await putMemorySettings(database, projectId, { batch_of: 1 });
  const items = createItems({ database, clock: systemClock });
  const [agent, person] = [{ origin: 'agent', author: 'key:a' } as const, { origin: 'person', author: `person:${randomUUID()}` } as const];
  const own = { kind: 'preference', importance: 4, pinned: false } as const;
  const ofProject = await items.write(projectId, { ...own, text: 'project-wide', subject: null }, agent);
  await items.correct(projectId, ofProject.id, 'project-wide, corrected', person);
  const removed = await items.write(projectId, { ...own, text: 'Bob has left', subject: 'bob' }, agent);
  await items.remove(projectId, removed.id, agent);
  const pinned = await items.write(projectId, { ...own, text: 'Ann “reads” 本', subject: 'ann', pinned: true }, person);
  for (const rating of ['useful', 'wrong', 'wrong'] as const) await items.rate(projectId, pinned.id, rating);
  await items.confirm(projectId, pinned.id, person);
  await items.rate(projectId, pinned.id, 'useful', 'key:a');
  const shared = await items.write(projectId, { ...own, text: 'shared', subject: null }, agent);
  const votes = [{ itemId: shared.id, rating: 'wrong' as const }];
  for (const subject of ['ann', 'bob']) await saveVotes(database, { projectId, voter: `key:${subject}`, subject, callId: null, votes });

  const learner = createTestLearning(database);
  let replaces: string | null = null;
  learner.respond = (call) => {
    if (call.job === 'extract') return learnEveryMessage(call);
    const { new: added, facts } = JSON.parse(call.text) as { new: { id: string; text: string }[]; facts: { id: string }[] };
    replaces = facts[0]?.id ?? null;
    const target = added[0]?.text.replace(/^.* in |\.$/g, '');
    const fact = {
      item_id: added[0]?.id,
      source: 'user',
      relation: 'lives_in',
      target,
      fact: `The user lives in ${target}`,
      reason: '',
      replaces,
    };
    return { merges: [], facts: [fact], page: `Lives in ${target}` };
  };
  for (const [subject, text] of [
    ['ann', 'I live in Oslo.'],
    ['bob', 'I live in Rome.'],
    ['ann', 'I live in Bergen.'],
  ] as const) {
    await storeReadConversation(database, { projectId, subject, texts: [text] });
    await learner.activities.checkLearning(projectId);
    await learner.runBatches(projectId);
  }

  // A dialogue that starts again, a dialogue with a history, and a call without a conversation.
  const say = (subject: string | null, at: number, lines: string[], options: object = {}) =>
    record(database, [settledCall({ projectId, subject, at, body: chatBody(...lines), answer: 'ok', ...options })]);
  await say('ann', 5_000, ['s Be brief.', 'u one']);
  await say('ann', 5_010, ['u one', 'a ok', 'u two']);
  await say('ann', 5_020, ['u three']);
  await say(null, 5_030, ['u four', 'a yes', 'u five']);
  await say('ann', 5_040, ['u not recorded'], { mode: 'off' });
  await markAllRead(database, projectId);
  await database.query(
    `update conversations set title = first.title, text = first.text
       from (select conversation_id, min(part.content ->> 'text') filter (where position = 0) as title,
                    string_agg(part.role || ': ' || (part.content ->> 'text'), E'\\n' order by position) as text
               from conversation_parts join parts part on part.hash = part_hash and part.project_id = $1::uuid group by 1) first
      where id = first.conversation_id`,
    [projectId],
  );
  return projectId;
}
