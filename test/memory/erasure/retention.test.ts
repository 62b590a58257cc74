import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from '@jest/globals';
import { createCleanupSteps } from '../../../src/app/cleanup.ts';
import type { Database } from '../../../src/db/database.ts';
import { lockConversations } from '../../../src/db/locks.ts';
import { createRetention, type Retention } from '../../../src/memory/erasure/retention.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { previewRetention } from '../../../src/memory/records/deletion-rule.ts';
import { createMemorySettings } from '../../../src/memory/records/settings.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createTestLog } from '../../support/temporal.ts';
import { until } from '../../support/until.ts';
import { chatBody, createProject, listConversations, markAllRead, putMemorySettings, record, settledCall } from '../calls.ts';

const dayMs = 24 * 3_600_000;
const daySeconds = dayMs / 1_000;
/** A week and an hour after `baseTime`. */
const now = Date.UTC(2026, 10, 27, 11);

/** Runs the steps until there's nothing left to delete. Returns the number of deleted rows. */
async function deleteAll(some: () => Promise<number>): Promise<number> {
  let sum = 0;
  for (let deleted = await some(); deleted > 0; deleted = await some()) sum += deleted;
  return sum;
}

async function count(
  database: Database,
  table: 'parts' | 'call_texts' | 'memory_passages' | 'memory_items',
  projectId: string,
): Promise<number> {
  const [row] = await database.query<{ n: number }>(`select count(*)::integer as n from ${table} where project_id = $1::uuid`, [projectId]);
  return row?.n ?? 0;
}

describeDatabases('retention', (database, testOnAny) => {
  const expiry = (): Retention => createRetention({ database: database(), clock: { now: () => now } });

  const projectWith = async (days: number | null, settings: object = {}): Promise<string> => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { delete_conversations_after_days: days, ...settings });
    return projectId;
  };
  /** Marks all conversations as closed and learned. */
  const learnAll = async (projectId: string): Promise<void> => {
    await markAllRead(database(), projectId);
    await database().query(`update conversations set batched_messages = messages where project_id = $1::uuid`, [projectId]);
  };
  /** Starts a batch with a single group that has all messages of the project. Returns its id. */
  const startBatch = async (projectId: string, groupState: string): Promise<string> => {
    const batchId = randomUUID();
    await database().query(`insert into memory_batches (id, project_id, kind) values ($1::uuid, $2::uuid, 'normal')`, [batchId, projectId]);
    await database().query(
      `insert into memory_batch_groups (batch_id, position, project_id, messages, state) values ($1::uuid, 0, $2::uuid, 2, $3::text)`,
      [batchId, projectId, groupState],
    );
    await database().query(
      `insert into memory_batch_ranges (batch_id, group_position, conversation_id, from_position, to_position)
       select $1::uuid, 0, id, 0, messages from conversations where project_id = $2::uuid`,
      [batchId, projectId],
    );
    return batchId;
  };
  const daysAgo = (days: number): Date => new Date(now - days * dayMs);
  const entity = async (owner: string, name: string): Promise<string> => {
    const id = randomUUID();
    await database().query(
      `insert into memory_entities (id, project_id, subject, name, folded_name) values ($1::uuid, $2::uuid, 'ann', $3::text, $3::text)`,
      [id, owner, name],
    );
    return id;
  };
  const fact = (owner: string, sourceId: string, targetId: string, validTo: Date | null) =>
    database().query(
      `insert into memory_facts (id, project_id, subject, source_id, relation, target_id, fact, lexemes, evidence, valid_from, valid_to)
       values ($1::uuid, $2::uuid, 'ann', $3::uuid, 'works_at', $4::uuid, 'a fact', '', 'I work there', $5::timestamptz, $6::timestamptz)`,
      [randomUUID(), owner, sourceId, targetId, daysAgo(20), validTo],
    );
  /** Stores a conversation with a single call, `days` after `baseTime`. */
  const talk = (projectId: string, question: string, days = 0) =>
    settledCall({ projectId, at: days * daySeconds, body: chatBody(`u ${question}`), answer: `about ${question}` });

  test('deletes old conversations along with all data about their calls', async () => {
    const projectId = await projectWith(7);
    const keeps = await projectWith(null);
    await record(database(), [talk(projectId, 'old'), talk(projectId, 'young', 3), talk(keeps, 'old')]);
    await learnAll(projectId);
    await learnAll(keeps);
    expect(await deleteAll(expiry().conversations)).toBe(1);
    expect((await listConversations(database(), projectId)).map(({ lines }) => lines)).toEqual([['u young', 'a about young']]);
    expect(await count(database(), 'parts', projectId)).toBe(2);
    expect(await count(database(), 'call_texts', projectId)).toBe(1);
    expect((await listConversations(database(), keeps)).map(({ lines }) => lines)).toEqual([['u old', 'a about old']]);
    const passages = await database().query(`select 1 from memory_passages where project_id = $1::uuid and text like '%old%'`, [projectId]);
    expect(passages).toEqual([]);
  });

  test('measures the retention period from the last turn of a closed conversation', async () => {
    const projectId = await projectWith(7);
    const first = talk(projectId, 'go on');
    const later = settledCall({
      projectId,
      at: 2 * daySeconds,
      body: chatBody('u go on', 'a about go on', 'u further'),
      answer: 'still here',
    });
    await record(database(), [first, later, talk(projectId, 'unread')]);
    await database().query(`update conversations set state = 'read' where project_id = $1::uuid and messages = 4`, [projectId]);
    expect(await deleteAll(expiry().conversations)).toBe(0);
    expect(await listConversations(database(), projectId)).toHaveLength(2);
    await learnAll(projectId);
    expect(await deleteAll(expiry().conversations)).toBe(1);
    expect((await listConversations(database(), projectId)).map(({ lines }) => lines.length)).toEqual([4]);
  });

  test('keeps conversations with unlearned messages until a batch has succeeded', async () => {
    const projectId = await projectWith(7);
    await record(database(), [settledCall({ projectId, subject: 'ann', body: chatBody('u remember me'), answer: 'yes' })]);
    await markAllRead(database(), projectId);
    expect(await deleteAll(expiry().conversations)).toBe(0);
    await learnAll(projectId);
    const batchId = await startBatch(projectId, 'waiting');
    expect(await deleteAll(expiry().conversations)).toBe(0);
    await database().query(`update memory_batch_groups set state = 'done' where batch_id = $1::uuid`, [batchId]);
    expect(await deleteAll(expiry().conversations)).toBe(1);
    expect(await count(database(), 'parts', projectId)).toBe(0);
  });

  test('deletes old conversations if learning from them has failed or was stopped', async () => {
    for (const [group, batch] of [
      ['failed', 'running'],
      ['failed', 'failed'],
      ['waiting', 'failed'],
      ['waiting', 'stopped'],
    ] as const) {
      const projectId = await projectWith(7);
      await record(database(), [settledCall({ projectId, subject: 'ann', body: chatBody('u remember me'), answer: 'yes' })]);
      await learnAll(projectId);
      const batchId = await startBatch(projectId, group);
      await database().query(`update memory_batches set state = $2::text where id = $1::uuid`, [batchId, batch]);
      expect([group, batch, await deleteAll(expiry().conversations)]).toEqual([group, batch, 1]);
    }
  });

  test("deletes old prompts that don't belong to a conversation", async () => {
    const projectId = await projectWith(7);
    const keeps = await projectWith(null);
    const loose = (days: number, more: object, id = projectId) =>
      settledCall({ projectId: id, at: days * daySeconds, body: chatBody(`u loose ${JSON.stringify(more)}`), answer: 'yes', ...more });
    const shared = { body: chatBody('u shared'), answer: 'same' };
    await record(database(), [
      loose(0, { mode: 'off' }),
      loose(0, { outcome: 'failed', subject: 'ann' }),
      settledCall({ projectId, mode: 'off', ...shared }),
      settledCall({ projectId, at: 3 * daySeconds, ...shared }),
      loose(3, { mode: 'off', subject: 'young' }),
      loose(0, { mode: 'off' }, keeps),
    ]);
    expect(await deleteAll(expiry().conversations)).toBe(0);
    expect(await deleteAll(expiry().unfiledPrompts)).toBe(3);
    expect([await count(database(), 'call_texts', projectId), await count(database(), 'call_texts', keeps)]).toEqual([2, 1]);
    expect(await count(database(), 'parts', projectId)).toBe(4);
    expect(await count(database(), 'parts', keeps)).toBe(2);
  });

  test('applies the retention period even while memory is off', async () => {
    const projectId = await projectWith(7);
    await record(database(), [talk(projectId, 'old')]);
    await learnAll(projectId);
    await putMemorySettings(database(), projectId, { enabled: false });
    expect(await deleteAll(expiry().conversations)).toBe(1);
    expect(await count(database(), 'parts', projectId)).toBe(0);
  });

  test('keeps unlearned conversations while memory is off', async () => {
    const projectId = await projectWith(7);
    const about = (subject: string) => settledCall({ projectId, subject, body: chatBody(`u remember ${subject}`), answer: 'yes' });
    await record(database(), [about('ann')]);
    await learnAll(projectId);
    await startBatch(projectId, 'waiting');
    await record(database(), [about('bob')]);
    await markAllRead(database(), projectId);
    await record(database(), [about('unread')]);
    expect(await deleteAll(expiry().conversations)).toBe(0);
    await putMemorySettings(database(), projectId, { enabled: false });
    const preview = (unlearned: boolean) => previewRetention({ database: database(), clock: { now: () => now } }, projectId, 7, unlearned);
    expect([await preview(false), await preview(true)]).toMatchObject([{ conversations: 0 }, { conversations: 2 }]);
    expect(await deleteAll(expiry().conversations)).toBe(0);
    await putMemorySettings(database(), projectId, { delete_unlearned: true });
    expect(await deleteAll(expiry().conversations)).toBe(2);
    expect((await listConversations(database(), projectId)).map(({ subject }) => subject)).toEqual(['unread']);
  });

  test('keeps deleting unlearned conversations of projects that had memory off before migration 0051', async () => {
    const [off, on, never] = [await projectWith(7, { enabled: false }), await projectWith(7), await projectWith(null, { enabled: false })];
    const migration = new URL('../../../src/db/migrations/0051_unlearned_while_off.sql', import.meta.url);
    await database().query(await readFile(migration, 'utf8'));
    const { read } = createMemorySettings({ database: database(), clock: { now: () => now } });
    const changed = await Promise.all([off, on, never].map(async (id) => (await read(id)).delete_unlearned));
    expect(changed).toEqual([true, false, false]);
  });

  test('keeps messages as long as a call refers to them', async () => {
    const projectId = await projectWith(7);
    // Both calls start in the same way, so their first two messages are only stored once. The third call has no
    // conversation.
    const shared = chatBody('u hello', 'a good day', 'u one');
    const old = settledCall({ projectId, subject: 'ann', body: shared, answer: 'first' });
    const young = settledCall({
      projectId,
      subject: 'bob',
      at: 3 * daySeconds,
      body: chatBody('u hello', 'a good day', 'u two'),
      answer: 'second',
    });
    const off = settledCall({ projectId, at: 3 * daySeconds, mode: 'off', body: shared });
    await record(database(), [old, young, off]);
    await learnAll(projectId);
    expect(await count(database(), 'parts', projectId)).toBe(6);
    expect(await deleteAll(expiry().conversations)).toBe(1);
    // Only the branch of 'first' is deleted, because the call without a conversation ends at 'one'.
    expect(await count(database(), 'parts', projectId)).toBe(5);
    const [kept] = await listConversations(database(), projectId);
    expect(kept?.lines).toEqual(['u hello', 'a good day', 'u two', 'a second']);
  });

  test('deletes old closed memories but no live ones', async () => {
    const projectId = await projectWith(7);
    const at = (daysAgo: number) => createItems({ database: database(), clock: { now: () => now - daysAgo * dayMs } });
    const by = { origin: 'person', author: 'person:p' } as const;
    const item = (text: string) => ({ text, kind: 'fact', importance: 3, pinned: false, subject: null }) as const;
    const [live, corrected, removed, late] = [
      await at(20).write(projectId, item('live'), by),
      await at(20).write(projectId, item('before'), by),
      await at(20).write(projectId, item('removed'), by),
      await at(20).write(projectId, item('removed late'), by),
    ];
    await at(10).correct(projectId, corrected.id, 'after', by);
    await at(10).remove(projectId, removed.id, by);
    await at(2).remove(projectId, late.id, by);
    expect(await deleteAll(expiry().closedItems)).toBe(2);
    const rows = await database().query<{ text: string }>(`select text from memory_items where project_id = $1::uuid order by text`, [
      projectId,
    ]);
    expect(rows.map(({ text }) => text)).toEqual(['after', live.text, 'removed late']);
  });

  test('deletes facts that ended long ago, and the entities that only they refer to', async () => {
    const projectId = await projectWith(7);
    const keeps = await projectWith(null);
    const [ada, acme, globex] = [await entity(projectId, 'ada'), await entity(projectId, 'acme'), await entity(projectId, 'globex')];
    const [bob, initech] = [await entity(keeps, 'bob'), await entity(keeps, 'initech')];
    await fact(keeps, bob, initech, daysAgo(8));
    await fact(projectId, ada, globex, null);
    await fact(projectId, ada, globex, daysAgo(6));
    for (let n = 0; n < 501; n++) await fact(projectId, ada, acme, daysAgo(8));
    expect(await expiry().endedFacts()).toBe(500);
    const steps = createCleanupSteps({
      ...{ database: database(), clock: { now: () => now }, logger: createTestLog().logger },
      periods: () => ({ errorRetentionMs: 1, refusedCallRetentionMs: 1 }),
    });
    const step = steps.find(({ name }) => name === 'closed-memories');
    expect(await step?.run(AbortSignal.timeout(60_000))).toBe(1);
    expect(await step?.run(AbortSignal.timeout(60_000))).toBe(0);
    const names = await database().query<{ name: string }>(
      `select name from memory_entities where project_id = any($1::uuid[]) order by name`,
      [[projectId, keeps]],
    );
    expect(names.map(({ name }) => name)).toEqual(['ada', 'bob', 'globex', 'initech']);
    const facts = await database().query(`select 1 from memory_facts where project_id = any($1::uuid[])`, [[projectId, keeps]]);
    expect(facts).toHaveLength(3);
  });

  test('announces a shorter period a day ahead if it would delete facts', async () => {
    const projectId = await createProject(database());
    await fact(projectId, await entity(projectId, 'ada'), await entity(projectId, 'acme'), daysAgo(8));
    const settings = createMemorySettings({ database: database(), clock: { now: () => now } });
    expect(await settings.update(projectId, { delete_conversations_after_days: 30 })).toMatchObject({ pending_deletion: null });
    expect(await settings.update(projectId, { delete_conversations_after_days: 7 })).toMatchObject({
      pending_deletion: { delete_conversations_after_days: 7 },
    });
  });

  test('deletes old learning batches only if they have succeeded', async () => {
    const projectId = await projectWith(7);
    const keeps = await projectWith(null);
    const batch = async (owner: string, state: string, finishedAt: Date | null): Promise<string> => {
      const id = randomUUID();
      await database().query(
        `insert into memory_batches (id, project_id, kind, state, finished_at) values ($1::uuid, $2::uuid, 'remember', $3::text, $4::timestamptz)`,
        [id, owner, state, finishedAt],
      );
      await database().query(
        `insert into memory_batch_groups (batch_id, position, project_id, subject, focus, messages, state)
         values ($1::uuid, 0, $2::uuid, 'ann', 'where she lives', 1, $3::text)`,
        [id, owner, state === 'running' ? 'waiting' : state],
      );
      return id;
    };
    await batch(projectId, 'done', daysAgo(8));
    const kept = [
      await batch(projectId, 'done', daysAgo(6)),
      await batch(projectId, 'failed', daysAgo(8)),
      await batch(projectId, 'running', null),
      await batch(keeps, 'done', daysAgo(8)),
    ];
    expect(await deleteAll(expiry().batches)).toBe(1);
    const rows = await database().query<{ id: string }>(
      `select batch_id as id from memory_batch_groups where project_id = any($1::uuid[]) and focus = 'where she lives'`,
      [[projectId, keeps]],
    );
    expect(rows.map(({ id }) => id).sort()).toEqual(kept.sort());
  });

  testOnAny('deletes rows in small batches so that calls can be stored in between', async () => {
    const projectId = await projectWith(7);
    for (let batch = 0; batch < 5; batch++)
      await record(
        database(),
        Array.from({ length: 200 }, (_, n) => talk(projectId, `old ${batch}-${n}`)),
      );
    await learnAll(projectId);
    let largest = 0;
    let slices = 0;
    const writing = (async () => {
      for (let n = 0; n < 20; n++) await record(database(), [talk(projectId, `new ${n}`, 3)]);
    })();
    for (let deleted = await expiry().conversations(); deleted > 0; deleted = await expiry().conversations()) {
      largest = Math.max(largest, deleted);
      slices++;
    }
    await writing;
    expect({ largest, slices }).toEqual({ largest: 100, slices: 10 });
    expect(await listConversations(database(), projectId)).toHaveLength(20);
    expect(await count(database(), 'parts', projectId)).toBe(40);
  });

  /** Returns a cleanup during which somebody changes the settings, after it has found the project. */
  const expiryWhile = (projectId: string, change: object): Retention => {
    const changing: Database = {
      ...database(),
      transaction: async (work, settings) => {
        await putMemorySettings(database(), projectId, change);
        return database().transaction(work, settings);
      },
    };
    return createRetention({ database: changing, clock: { now: () => now } });
  };

  describe.each([null, 30])('changing the period to %s days during the cleanup', (days) => {
    const change = { delete_conversations_after_days: days };

    test('takes effect in projects that the cleanup has already found', async () => {
      const projectId = await projectWith(7);
      const loose = settledCall({ projectId, mode: 'off', body: chatBody('u loose'), answer: 'yes' });
      await record(database(), [talk(projectId, 'old'), loose]);
      await learnAll(projectId);
      await startBatch(projectId, 'done');
      await database().query(`update memory_batches set state = 'done', finished_at = $2::timestamptz where project_id = $1::uuid`, [
        projectId,
        new Date(now - 8 * dayMs),
      ]);
      for (const step of ['conversations', 'unfiledPrompts', 'batches'] as const) {
        await putMemorySettings(database(), projectId, { delete_conversations_after_days: 7 });
        expect([step, await deleteAll(expiryWhile(projectId, change)[step])]).toEqual([step, 0]);
      }
      await putMemorySettings(database(), projectId, { delete_conversations_after_days: 7 });
      for (const step of ['conversations', 'unfiledPrompts', 'batches'] as const)
        expect([step, await deleteAll(expiry()[step])]).toEqual([step, 1]);
    });

    test('takes effect in the project that the cleanup is waiting for', async () => {
      // PGlite has a single session, so nothing can be changed while the cleanup waits for a lock.
      if (database().kind === 'embedded') return;
      const projectId = await projectWith(7);
      await record(database(), [talk(projectId, 'old')]);
      await learnAll(projectId);
      let deleting = Promise.resolve(0);
      await database().transaction(async (tx) => {
        await lockConversations(tx, projectId);
        deleting = expiry().conversations();
        await until('the cleanup waits for the conversations', async () => {
          const waiting = await database().query(
            `select 1 from pg_locks join pg_database on pg_database.oid = pg_locks.database
              where locktype = 'advisory' and not granted and datname = current_database()`,
          );
          return waiting.length > 0;
        });
        await putMemorySettings(database(), projectId, change);
      });
      expect(await deleting).toBe(0);
      expect(await listConversations(database(), projectId)).toHaveLength(1);
    });
  });

  test('keeps unlearned conversations if delete_unlearned is turned off during the cleanup', async () => {
    const projectId = await projectWith(7, { delete_unlearned: true });
    await record(database(), [settledCall({ projectId, subject: 'ann', body: chatBody('u remember me'), answer: 'yes' })]);
    await markAllRead(database(), projectId);
    expect(await deleteAll(expiryWhile(projectId, { delete_unlearned: false }).conversations)).toBe(0);
    expect(await deleteAll(expiryWhile(projectId, { delete_unlearned: true }).conversations)).toBe(1);
  });
});
