/**
 * Tests that a change which makes the deletion period delete more only takes effect after a day, and that any member
 * can cancel it until then.
 */
import { expect, test } from '@jest/globals';
import { dayMs, formatTime } from '../../../src/core/time.ts';
import type { Database } from '../../../src/db/database.ts';
import { createRetention } from '../../../src/memory/erasure/retention.ts';
import { countKeptUnlearned } from '../../../src/memory/records/deletion-rule.ts';
import { createMemorySettings } from '../../../src/memory/records/settings.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, listConversations, markAllRead, record, settledCall } from '../calls.ts';

/** Thirty days after the first call in `calls.ts`. */
const start = Date.UTC(2026, 11, 20, 10);

describeDatabases('shortening the deletion period', (database) => {
  let now = start;
  const clock = { now: () => now };
  const settingsOf = (queries: Database) => createMemorySettings({ database: queries, clock });
  /** Runs the steps of the daily cleanup that apply deletion periods and delete conversations. */
  const cleanUp = async (): Promise<void> => {
    const { periods, conversations } = createRetention({ database: database(), clock });
    for (const step of [periods, conversations]) while ((await step()) > 0);
  };
  /** Creates a project with one conversation. Memory has learned from it, unless `isLearned` is false. */
  const createTalk = async (isLearned = true): Promise<string> => {
    now = start;
    const projectId = await createProject(database());
    await record(database(), [settledCall({ projectId, subject: 'ann', body: chatBody('u remember me'), answer: 'yes' })]);
    await markAllRead(database(), projectId);
    if (isLearned) await database().query(`update conversations set batched_messages = messages where project_id = $1::uuid`, [projectId]);
    return projectId;
  };
  const countOf = async (projectId: string): Promise<number> => (await listConversations(database(), projectId)).length;
  const week = { delete_conversations_after_days: 7 };
  const planned = { ...week, delete_unlearned: false, effective_at: formatTime(start + dayMs), conversations: 1 };

  test('applies a shorter deletion period no earlier than a day after the change', async () => {
    const projectId = await createTalk();
    const settings = settingsOf(database());
    expect(await settings.change(projectId, week)).toMatchObject({
      previous: { delete_conversations_after_days: null, pending_deletion: null },
      settings: { delete_conversations_after_days: null, pending_deletion: planned },
    });
    await cleanUp();
    now += dayMs - 1;
    await cleanUp();
    expect(await countOf(projectId)).toBe(1);
    for (const change of [week, { batch_of: 3 }])
      expect(await settings.update(projectId, change)).toMatchObject({ pending_deletion: planned });
    // Some clients send back all settings that they have read.
    expect(await settings.update(projectId, await settings.read(projectId))).toMatchObject({ pending_deletion: planned });
    now += 1;
    await cleanUp();
    expect(await countOf(projectId)).toBe(0);
    expect(await settings.read(projectId)).toMatchObject({ ...week, batch_of: 3, pending_deletion: null });
  });

  test.each([
    ['null for the pending change', { pending_deletion: null }],
    ['the period that is in effect', { delete_conversations_after_days: null }],
  ])('cancels a shorter deletion period if the settings are saved with %s', async (_title, cancel) => {
    const projectId = await createTalk();
    const settings = settingsOf(database());
    await settings.update(projectId, week);
    expect(await settings.update(projectId, cancel)).toMatchObject({ delete_conversations_after_days: null, pending_deletion: null });
    now += 2 * dayMs;
    await cleanUp();
    expect(await countOf(projectId)).toBe(1);
  });

  test('cancels a plan with delete_unlearned if the period in effect is saved', async () => {
    const projectId = await createTalk(false);
    const settings = settingsOf(database());
    const current = { delete_conversations_after_days: 14, delete_unlearned: false };
    await settings.update(projectId, { delete_conversations_after_days: 14 });
    now += dayMs;
    await cleanUp();
    await settings.update(projectId, { ...week, delete_unlearned: true });
    const saved = await settings.update(projectId, { delete_conversations_after_days: 14 });
    expect(saved).toMatchObject({ ...current, pending_deletion: null });
    now += 2 * dayMs;
    await cleanUp();
    expect(await countOf(projectId)).toBe(1);
  });

  test('applies a longer period immediately, and delete_unlearned in the same request after a day', async () => {
    const projectId = await createTalk();
    await record(database(), [settledCall({ projectId, subject: 'bob', body: chatBody('u and me'), answer: 'yes' })]);
    await markAllRead(database(), projectId);
    await database().query(
      `update conversations set last_turn_at = last_turn_at - interval '30 days' where project_id = $1::uuid and subject = 'bob'`,
      [projectId],
    );
    // Ann's conversation is thirty days old. Bob's is sixty days old, and memory hasn't learned from it yet.
    const settings = settingsOf(database());
    await settings.update(projectId, { delete_conversations_after_days: 31 });
    now += dayMs;
    const { periods } = createRetention({ database: database(), clock });
    await periods();
    const planned = { delete_conversations_after_days: 31, delete_unlearned: true };
    const longer = { delete_conversations_after_days: 45, delete_unlearned: true };
    expect(await settings.update(projectId, planned)).toMatchObject({ ...planned, delete_unlearned: false, pending_deletion: planned });
    expect(await settings.update(projectId, longer)).toMatchObject({
      ...{ ...longer, delete_unlearned: false },
      pending_deletion: { ...longer, effective_at: formatTime(now + dayMs), conversations: 1 },
    });
    now += dayMs - 1;
    await cleanUp();
    expect(await countOf(projectId)).toBe(2);
    now += 1;
    await cleanUp();
    expect((await listConversations(database(), projectId)).map(({ subject }) => subject)).toEqual(['ann']);
    expect(await settings.read(projectId)).toMatchObject({ ...longer, pending_deletion: null });
  });

  test('does not turn on delete_unlearned if a plan with it is cancelled with null', async () => {
    const projectId = await createTalk();
    const settings = settingsOf(database());
    await settings.update(projectId, { ...week, delete_unlearned: true });
    const keepAll = { delete_conversations_after_days: null };
    expect(await settings.update(projectId, keepAll)).toMatchObject({ ...keepAll, delete_unlearned: false, pending_deletion: null });
  });

  test('applies a shorter deletion period immediately if nothing would be deleted within a day', async () => {
    const projectId = await createTalk();
    const settings = settingsOf(database());
    const set = async (days: number | null) =>
      (await settings.update(projectId, { delete_conversations_after_days: days })).pending_deletion;
    expect(await set(60)).toBeNull();
    expect(await set(31)).toBeNull();
    // The conversation is thirty days old, so a period of thirty days would delete it within a day.
    expect(await set(30)).toMatchObject({ delete_conversations_after_days: 30, conversations: 1 });
    expect(await set(90)).toBeNull();
    expect(await settings.read(projectId)).toMatchObject({ delete_conversations_after_days: 90 });
  });

  test('cancels a pending shorter deletion period if an older gateway version changes the setting', async () => {
    const projectId = await createTalk();
    const settings = settingsOf(database());
    await settings.update(projectId, week);
    await database().query(
      `update memory_settings set settings = settings || '{"delete_conversations_after_days": 365}' where project_id = $1::uuid`,
      [projectId],
    );
    now += 2 * dayMs;
    await cleanUp();
    expect(await countOf(projectId)).toBe(1);
    expect(await settings.read(projectId)).toMatchObject({ delete_conversations_after_days: 365, pending_deletion: null });
  });

  test('deletes unlearned conversations no earlier than a day after delete_unlearned is set', async () => {
    const projectId = await createTalk(false);
    const settings = settingsOf(database());
    await settings.update(projectId, week);
    now += dayMs;
    await cleanUp();
    const kept = () => countKeptUnlearned({ database: database(), clock }, projectId);
    expect([await countOf(projectId), await kept()]).toEqual([1, 1]);
    expect(await settings.update(projectId, { delete_unlearned: true })).toMatchObject({
      ...{ ...week, delete_unlearned: false },
      pending_deletion: { ...week, delete_unlearned: true, conversations: 1 },
    });
    await cleanUp();
    expect(await countOf(projectId)).toBe(1);
    now += dayMs;
    await cleanUp();
    expect([await countOf(projectId), await kept()]).toEqual([0, 0]);
  });
});
