/** Tests that the last step of an erasure finds everything that earlier steps left behind. */
import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../../src/core/call.ts';
import { systemClock } from '../../../src/core/time.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { createErasureSteps } from '../../../src/memory/erasure/erasure-steps.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject, record, settledCall } from '../calls.ts';

describeDatabases('the end of an erasure', (database) => {
  test("doesn't finish an erasure while older prompts of the subject are still stored", async () => {
    const projectId = await createProject(database());
    const { id, erasedAt } = await createErase({ database: database(), clock: systemClock })({
      projectId,
      subject: 'Ada',
      askedBy: 'key:a',
    });
    const at = erasedAt.getTime();
    const call = (subject: string, startedAt: number): SettledCall => {
      const settled = settledCall({ projectId, subject });
      return { ...settled, metadata: { ...settled.metadata, startedAt } };
    };
    const steps = createErasureSteps({ database: database(), listLive: async () => [], deleteRuns: async () => undefined });
    await record(database(), [call('Ada', at), call('Ada', at + 1), call('Bob', at)]);
    await database().query(`delete from conversations where project_id = $1::uuid`, [projectId]);
    await expect(steps.finish(id)).rejects.toThrow('these tables still contain data of the erased subject: call_texts');
    await database().query(`delete from call_texts where subject = 'Ada' and created_at <= $1::timestamptz`, [erasedAt]);
    await steps.finish(id);
    const rows = await database().query(`select state from erasures where id = $1::uuid`, [id]);
    expect(rows).toEqual([{ state: 'done' }]);
  });

  test('finishes an erasure even if a host with a slow clock has stored new rows', async () => {
    const projectId = await createProject(database());
    const erase = createErase({ database: database(), clock: systemClock });
    const { id } = await erase({ projectId, subject: 'Ada', askedBy: 'key:a' });
    const slow = { now: () => systemClock.now() - 3_600_000 };
    const item = { text: 'Ada drinks tea', kind: 'fact', subject: 'Ada', importance: 3, pinned: false } as const;
    await createItems({ database: database(), clock: slow }).write(projectId, item, { origin: 'agent', author: 'key:a' });
    const steps = createErasureSteps({ database: database(), listLive: async () => [], deleteRuns: async () => undefined });
    await steps.finish(id);
    expect(await database().query(`select state from erasures where id = $1::uuid`, [id])).toEqual([{ state: 'done' }]);
  });

  test('finds remaining rows of an erased subject even if they are beyond the first page', async () => {
    const projectId = await createProject(database());
    await database().query(
      `insert into memory_entities (id, project_id, subject, name, folded_name, created_at)
       select gen_random_uuid(), $1::uuid, 'user-' || n, 'name', 'name', now() from generate_series(1, 5100) n`,
      [projectId],
    );
    const erase = createErase({ database: database(), clock: systemClock });
    const steps = createErasureSteps({ database: database(), listLive: async () => [], deleteRuns: async () => undefined });
    // In every locale, this subject comes last.
    const { id } = await erase({ projectId, subject: 'zoe', askedBy: 'key:a' });
    await steps.finish(id);
    await database().query(`update erasures set state = 'waiting' where id = $1::uuid`, [id]);
    await database().query(
      `insert into memory_entities (id, project_id, subject, name, folded_name, created_at)
       select gen_random_uuid(), $1::uuid, 'zoe', 'name', 'name', erased_at from erasures where id = $2::uuid`,
      [projectId, id],
    );
    await expect(steps.finish(id)).rejects.toThrow('these tables still contain data of the erased subject: memory_entities');
  });
});
