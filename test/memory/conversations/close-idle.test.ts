import { expect, test } from '@jest/globals';
import { createCloseIdle } from '../../../src/memory/conversations/close-idle.ts';
import { reenqueueIdleTimers } from '../../../src/memory/conversations/idle-timer.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, listConversations, listIdleTimerStarts, record, settledCall } from '../calls.ts';

const idleMs = 600_000;

describeDatabases('closing idle conversations', (database) => {
  /** Stores conversations with a single call, which ended this many milliseconds ago. */
  async function open(projectId: string, ...agoMs: readonly number[]): Promise<void> {
    const existing = (await listConversations(database(), projectId)).length;
    const calls = agoMs.map((_, index) => {
      const question = `question ${existing + index}`;
      return settledCall({ projectId, at: existing + index, body: chatBody(`u ${question}`), answer: 'answer' });
    });
    await record(database(), calls);
    const added = (await listConversations(database(), projectId)).slice(existing);
    await database().query(
      `update conversations set last_turn_at = now() - new.ago * interval '1 ms'
         from unnest($1::uuid[], $2::float8[]) as new (id, ago) where conversations.id = new.id`,
      [added.map(({ id }) => id), agoMs],
    );
  }
  const read = (projectId: string, run = 1, sliceMs?: number) =>
    createCloseIdle({ database: database(), ...(sliceMs !== undefined && { sliceMs }) })({ projectId, run, idleMs });
  const statesOf = async (projectId: string): Promise<unknown[]> =>
    database().query('select state, title, text from conversations where project_id = $1::uuid order by started_at', [projectId]);
  const isActive = async (projectId: string): Promise<boolean> => {
    const [timer] = await database().query<{ active: boolean }>('select active from idle_timers where project_id = $1::uuid', [projectId]);
    return timer?.active === true;
  };

  test('closes all idle conversations and waits until the next one becomes idle', async () => {
    const projectId = await createProject(database());
    await open(projectId, idleMs + 5_000, idleMs, idleMs - 120_000, 0);
    const result = await read(projectId);
    expect(result).toEqual({ kind: 'wait', waitMs: expect.any(Number), read: 2, waiting: 2 });
    const waitMs = result.kind === 'wait' ? result.waitMs : 0;
    expect(waitMs).toBeGreaterThan(60_000);
    expect(waitMs).toBeLessThanOrEqual(120_000);
    const states = await statesOf(projectId);
    expect(states.slice(0, 2)).toEqual(
      [0, 1].map((n) => ({ state: 'read', title: `question ${n}`, text: `user: question ${n}\nassistant: answer` })),
    );
    expect(states.slice(2)).toMatchObject([{ state: 'stored' }, { state: 'stored' }]);
  });

  test('waits at least a minute before it checks for idle conversations again', async () => {
    const projectId = await createProject(database());
    await open(projectId, idleMs - 1_000);
    expect(await read(projectId)).toEqual({ kind: 'wait', waitMs: 60_000, read: 0, waiting: 1 });
  });

  test("doesn't wait for a turn in the far future", async () => {
    const projectId = await createProject(database());
    await open(projectId, -1e12);
    const result = await read(projectId);
    expect(result).toEqual({ kind: 'wait', waitMs: idleMs, read: 0, waiting: 1 });
    await open(projectId, idleMs);
    expect(await read(projectId)).toEqual({ kind: 'wait', waitMs: idleMs, read: 1, waiting: 1 });
  });

  test('starts another run if an older version has scheduled the next check for the far future', async () => {
    const projectId = await createProject(database());
    await open(projectId, 0);
    await database().query(`update idle_timers set due_at = '9999-12-31' where project_id = $1::uuid`, [projectId]);
    await open(projectId, 0);
    expect(await listIdleTimerStarts(database(), projectId)).toEqual([1, 2].map((run) => `conversations/${projectId}/${run}`));
  });

  test('counts the idle time from now if the clock of a host was ahead', async () => {
    const projectId = await createProject(database());
    await record(database(), [settledCall({ projectId, at: 1e9, body: chatBody('u hello'), answer: 'hi' })]);
    const [row] = await database().query<{ isPast: boolean }>(
      `select last_turn_at <= now() as "isPast" from conversations where project_id = $1::uuid`,
      [projectId],
    );
    expect(row).toEqual({ isPast: true });
  });

  test('ends the Temporal run when no conversation is open', async () => {
    const projectId = await createProject(database());
    await open(projectId, idleMs);
    expect(await read(projectId)).toEqual({ kind: 'done', read: 1 });
    expect(await isActive(projectId)).toBe(false);
    await open(projectId, 0);
    expect(await listIdleTimerStarts(database(), projectId)).toEqual([1, 2].map((run) => `conversations/${projectId}/${run}`));
    expect(await read(projectId)).toEqual({ kind: 'superseded', read: 0 });
    expect(await read(projectId, 2)).toMatchObject({ kind: 'wait', read: 0, waiting: 1 });
  });

  test('closes a limited number of conversations per transaction', async () => {
    const projectId = await createProject(database());
    await open(projectId, ...Array<number>(130).fill(idleMs));
    // The slice ended after its first transaction.
    expect(await read(projectId, 1, 0)).toEqual({ kind: 'wait', waitMs: 0, read: 100, waiting: 30 });
    expect(await read(projectId)).toEqual({ kind: 'done', read: 30 });
  });

  test('closes no conversations if a newer run has taken over', async () => {
    const [ours, theirs] = [await createProject(database()), await createProject(database())];
    await open(ours, idleMs);
    await open(theirs, idleMs);
    expect(await read(ours, 7)).toEqual({ kind: 'superseded', read: 0 });
    expect(await statesOf(ours)).toMatchObject([{ state: 'stored' }]);
    expect(await read(ours)).toEqual({ kind: 'done', read: 1 });
    expect(await read(ours)).toEqual({ kind: 'superseded', read: 0 });
    expect(await statesOf(theirs)).toMatchObject([{ state: 'stored' }]);
  });

  test('starts learning only once when many conversations are closed together', async () => {
    const projectId = await createProject(database());
    const learningRows = () =>
      database().query(`select 1 from outbox where workflow = 'projectLearning' and project_id = $1::uuid`, [projectId]);
    await open(projectId, idleMs);
    await read(projectId);
    expect(await learningRows()).toHaveLength(0);
    const asAnn = (at: number) => settledCall({ projectId, subject: `ann-${at}`, at, body: chatBody(`u I am ${at}`), answer: 'hi' });
    await record(database(), [10, 11, 12].map(asAnn));
    await database().query(`update conversations set last_turn_at = now() - interval '1 hour' where project_id = $1::uuid`, [projectId]);
    expect(await read(projectId, 2)).toEqual({ kind: 'done', read: 3 });
    expect(await learningRows()).toHaveLength(1);
  });

  test('restarts the idle timers when the gateway connects to Temporal', async () => {
    const [current, older, quiet] = [await createProject(database()), await createProject(database()), await createProject(database())];
    for (const projectId of [current, older, quiet]) await open(projectId, idleMs);
    await read(quiet);
    await database().query('delete from idle_timers where project_id = $1::uuid', [older]);
    await database().query('delete from outbox');
    await reenqueueIdleTimers(database());
    const starts = await Promise.all([current, older, quiet].map((projectId) => listIdleTimerStarts(database(), projectId)));
    expect(starts).toEqual([[`conversations/${current}/1`], [`conversations/${older}/1`], []]);
  });
});
