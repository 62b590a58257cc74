/** The last step of an erasure finds what the steps before it left. */
import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../../src/core/call.ts';
import { systemClock } from '../../../src/core/time.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { createErasureSteps } from '../../../src/memory/erasure/erasure-steps.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject, record, settledCall } from '../calls.ts';

describeDatabases('the end of an erasure', (database) => {
  test('fails while a prompt from before it is stored; later prompts and those of others stay', async () => {
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
    await expect(steps.finish(id)).rejects.toThrow('data of the erased subject is left in call_texts');
    await database().query(`delete from call_texts where subject = 'Ada' and created_at <= $1::timestamptz`, [erasedAt]);
    await steps.finish(id);
    const rows = await database().query(`select state from erasures where id = $1::uuid`, [id]);
    expect(rows).toEqual([{ state: 'done' }]);
  });
});
