/** Tests how far learning is behind. Only messages that memory should have learned by now count. */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { measureLearningLag } from '../../../src/memory/learning/learning-lag.ts';
import { createMemorySettings } from '../../../src/memory/records/settings.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject } from '../calls.ts';
import { createTestLearning, storeReadConversation } from '../learning.ts';

const idleMs = 600_000;

describeDatabases('the learning lag', (database) => {
  const lagMinutes = async (projectId: string | null): Promise<number> =>
    Math.round((await measureLearningLag(database(), { projectId, idleMs })) / 60_000);
  const setUp = async () => {
    const projectId = await createProject(database());
    const settings = createMemorySettings({ database: database(), clock: systemClock });
    return { projectId, change: (change: object) => settings.update(projectId, change), learning: createTestLearning(database()) };
  };
  const storeConversation = async (projectId: string, { minutesAgo }: { minutesAgo: number }): Promise<string> => {
    const id = await storeReadConversation(database(), { projectId, subject: `user ${minutesAgo}`, texts: ['I drink tea.'] });
    await database().query(`update conversations set last_turn_at = now() - $2::integer * interval '1 minute' where id = $1::uuid`, [
      id,
      minutesAgo,
    ]);
    return id;
  };
  const setState = (id: string, state: 'stored' | 'read') =>
    database().query(`update conversations set state = $2::text where id = $1::uuid`, [id, state]);
  const ageBatches = (projectId: string, minutes: number) =>
    database().query(`update memory_batches set created_at = now() - $2::integer * interval '1 minute' where project_id = $1::uuid`, [
      projectId,
      minutes,
    ]);

  test('measures the learning lag from when the oldest closed conversation became overdue', async () => {
    const { projectId, change } = await setUp();
    expect(await lagMinutes(projectId)).toBe(0);
    await storeConversation(projectId, { minutesAgo: 69 });
    expect(await lagMinutes(projectId)).toBe(0);
    await storeConversation(projectId, { minutesAgo: 90 });
    expect(await lagMinutes(projectId)).toBe(20);
    await change({ at_least_every_minutes: 100 });
    expect(await lagMinutes(projectId)).toBe(0);
    await change({ at_least_every_minutes: 10 });
    expect(await lagMinutes(projectId)).toBe(70);
  });

  test('includes conversations that should already be closed in the learning lag', async () => {
    const { projectId } = await setUp();
    const open = await storeConversation(projectId, { minutesAgo: 60 });
    await setState(open, 'stored');
    expect(await lagMinutes(projectId)).toBe(0);
    const stuck = await storeConversation(projectId, { minutesAgo: 100 });
    await setState(stuck, 'stored');
    expect(await lagMinutes(projectId)).toBe(30);
    await database().query(`update conversations set learnable = false where id = $1::uuid`, [stuck]);
    expect(await lagMinutes(projectId)).toBe(0);
  });

  test('counts a failing batch towards the learning lag until its messages are learned', async () => {
    const { projectId, change, learning } = await setUp();
    await storeConversation(projectId, { minutesAgo: 1 });
    await change({ batch_of: 1 });
    await learning.activities.checkLearning(projectId);
    learning.respond = () => ({ kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: 'the vendor fails' } });
    expect(await learning.runBatches(projectId)).toHaveLength(1);
    await ageBatches(projectId, 45);
    expect((await learning.batches.count(projectId)).running).toBe(1);
    expect(await lagMinutes(projectId)).toBe(45);
    learning.respond = () => ({ memories: [] });
    await learning.runBatches(projectId);
    expect(await lagMinutes(projectId)).toBe(0);
  });

  test('leaves projects out of the learning lag if their memory is off or has no model', async () => {
    const { projectId, change, learning } = await setUp();
    await storeConversation(projectId, { minutesAgo: 1_000 });
    await change({ enabled: false });
    expect(await lagMinutes(projectId)).toBe(0);
    await change({ enabled: true });
    expect(await lagMinutes(projectId)).toBe(930);
    await learning.activities.checkLearning(projectId);
    learning.hasRoute = false;
    learning.respond = () => ({
      kind: 'failure',
      failure: {
        kind: 'blocked',
        code: 'no_route',
        message: 'no model is configured for learning: add one to the tier memory-extract or trivial',
      },
    });
    await learning.runBatches(projectId);
    await ageBatches(projectId, 900);
    await storeConversation(projectId, { minutesAgo: 500 });
    expect(await lagMinutes(projectId)).toBe(0);
  });

  test('ignores conversations in the learning lag if they will be deleted unlearned', async () => {
    const { projectId, change, learning } = await setUp();
    await storeConversation(projectId, { minutesAgo: 3_000 });
    await database().query(
      `insert into memory_settings (project_id, settings) values ($1::uuid, '{"delete_conversations_after_days": 2, "delete_unlearned": true}')
       on conflict (project_id) do update set settings = excluded.settings`,
      [projectId],
    );
    expect(await lagMinutes(projectId)).toBe(0);
    await change({ delete_unlearned: false });
    expect(await lagMinutes(projectId)).toBe(2_930);
    await learning.activities.checkLearning(projectId);
    await ageBatches(projectId, 40);
    expect(await lagMinutes(projectId)).toBe(40);
    await database().query(`update memory_batches set state = 'stopped' where project_id = $1::uuid`, [projectId]);
    expect(await lagMinutes(projectId)).toBe(0);
  });

  test('reports the learning lag of the project that is furthest behind', async () => {
    const [one, other] = [await setUp(), await setUp()];
    await storeConversation(one.projectId, { minutesAgo: 10_000 });
    await storeConversation(other.projectId, { minutesAgo: 20_000 });
    expect(await lagMinutes(null)).toBe(await lagMinutes(other.projectId));
  });
});
