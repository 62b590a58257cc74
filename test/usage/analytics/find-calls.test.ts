/** Tests that finding a call only takes lookups in an index, no matter how many calls the project has. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { newId } from '../../../src/core/ids.ts';
import { findCalls } from '../../../src/usage/analytics/find-calls.ts';
import { listCalls } from '../../../src/usage/call-rows.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { describeDatabases } from '../../db/databases.ts';
import { type CallChanges, noon, settledCall } from '../../journal/calls.ts';

describeDatabases('finding calls', (database) => {
  const addProject = async () => {
    const projectId = randomUUID();
    await database().query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [projectId, projectId]);
    const add = async (at: number, { metadata = {}, ...changes }: CallChanges = {}): Promise<string> => {
      const call = settledCall({ ...changes, metadata: { projectId, keyId: randomUUID(), id: newId(at), startedAt: at, ...metadata } });
      await database().transaction((tx) => storeCalls(tx, [call]));
      return call.metadata.id;
    };
    return { projectId, add };
  };
  const { correlation } = settledCall().metadata;
  const [attempt] = settledCall().result.attempts;
  if (!attempt) throw new Error('a settled call has an attempt');

  test('finds calls by task, end user or request id', async () => {
    const [one, other] = [await addProject(), await addProject()];
    const memory = { mode: 'write', explicitWrite: false, subject: 'ann' } as const;
    const attempts = [attempt, { ...attempt, n: 2, requestId: 'req_7' }];
    await one.add(noon, { metadata: { memory, correlation: { ...correlation, taskId: 't-1' } } });
    await one.add(noon + 1_000, { metadata: { memory, correlation: { ...correlation, taskId: 't-1' } } });
    const first = await one.add(noon + 2_000, { result: { attempts } });
    const second = await one.add(noon + 3_000, { result: { attempts } });
    await other.add(noon + 4_000, { result: { attempts } });

    const find = (text: string) => findCalls(database(), one.projectId, text);
    const idsOf = async (text: string) => (await find(text)).calls.map(({ id }) => id);
    expect(await idsOf('req_7')).toEqual([second, first]);
    expect(await idsOf(first)).toEqual([first]);
    expect(await find('t-1')).toEqual({ calls: [], refused: null, taskAt: new Date(noon + 1_000), subjectAt: null });
    expect(await find('ann')).toEqual({ calls: [], refused: null, taskAt: null, subjectAt: new Date(noon + 1_000) });
    for (const text of ['', 'req_8', randomUUID(), '\0', 'x'.repeat(20_000)])
      expect(await find(text)).toEqual({ calls: [], refused: null, taskAt: null, subjectAt: null });
    expect((await listCalls(database(), one.projectId, { requestId: 'req_7' })).map(({ id }) => id)).toEqual([second, first]);
    expect(await listCalls(database(), null, { requestId: 'req_7' })).toHaveLength(3);
    expect(await listCalls(database(), one.projectId, { subject: 'ann', limit: 1 })).toHaveLength(1);
    expect((await listCalls(database(), null, { subject: 'ann' })).map(({ project }) => project)).toEqual([one.projectId, one.projectId]);
  });
});
