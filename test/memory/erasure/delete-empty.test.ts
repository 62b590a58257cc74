import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { deleteEmptyErasures } from '../../../src/memory/erasure/delete-empty.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { listErasures } from '../../../src/memory/erasure/erasure-report.ts';
import { createErasureSteps } from '../../../src/memory/erasure/erasure-steps.ts';
import { redactErased } from '../../../src/memory/erasure/tombstones.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, record, settledCall } from '../calls.ts';

const dayMs = 24 * 3_600_000;

describeDatabases('erasures that found nothing', (database) => {
  test('deletes empty erasures after 30 days unless they are still needed', async () => {
    const projectId = await createProject(database());
    const steps = createErasureSteps({ database: database(), listLive: async () => [], deleteRuns: async () => undefined });
    const eraseAt = async (days: number, subject: string): Promise<string> => {
      const clock = { now: () => systemClock.now() + days * dayMs };
      const { id } = await createErase({ database: database(), clock })({ projectId, subject, askedBy: 'key:a' });
      return id;
    };
    await record(database(), [settledCall({ projectId, subject: 'known', body: chatBody('u hello'), answer: 'hi' })]);
    const { id: item } = await createItems({ database: database(), clock: systemClock }).write(
      projectId,
      { text: 'Prices exclude tax', kind: 'fact', importance: 3, subject: null, pinned: false },
      { origin: 'agent', author: 'key:a' },
    );
    await database().query(
      `insert into memory_votes (item_id, voter, project_id, subject, useful, voted_at) values ($1::uuid, 'key:a', $2::uuid, 'voter', true, now())`,
      [item, projectId],
    );
    const kept = [
      await eraseAt(-31, 'unfinished'),
      await eraseAt(-29, 'recent'),
      await eraseAt(-31, 'known'),
      await eraseAt(-31, 'late'),
      await eraseAt(-31, 'voter'),
    ];
    const [inFlight, unknown] = [await eraseAt(-31, 'in flight'), await eraseAt(-31, 'unknown')];
    await redactErased(database(), [settledCall({ projectId, subject: 'late' })]);
    for (const [id, openCalls] of [[inFlight, 1] as const, [unknown, 0] as const])
      await database().query(
        `insert into erasure_processes (erasure_id, process, cache_entries, open_calls) values ($1::uuid, $2::uuid, 0, $3::integer)`,
        [id, randomUUID(), openCalls],
      );
    for (const id of [...kept.slice(1), inFlight, unknown]) await steps.finish(id);

    while ((await deleteEmptyErasures(database(), systemClock)) > 0);
    const left = await listErasures(database(), projectId, 10);
    expect(left.map(({ id }) => id).sort()).toEqual([...kept, inFlight].sort());
  });
});
