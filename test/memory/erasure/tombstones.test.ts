/** Tests that tombstones reject data from before an erasure. We check this by project, subject and time. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { isAnyErased } from '../../../src/memory/erasure/tombstones.ts';
import { describeAnyDatabase } from '../../db/databases.ts';
import { createProject } from '../calls.ts';

describeAnyDatabase('the tombstone of an erasure', (database) => {
  test("rejects calls that started before the subject's last erasure", async () => {
    const projectId = await createProject(database());
    const erase = createErase({ database: database(), clock: systemClock });
    await erase({ projectId, subject: 'Ada', askedBy: 'key:a' });
    const { erasedAt } = await erase({ projectId, subject: 'Ada', askedBy: 'key:a' });
    const at = erasedAt.getTime();
    const isErased = (call: object): Promise<boolean> => isAnyErased(database(), [{ projectId, subject: 'Ada', startedAt: at, ...call }]);
    expect(await isErased({})).toBe(true);
    expect(await isErased({ startedAt: 0 })).toBe(true);
    expect(await isErased({ startedAt: at + 1 })).toBe(false);
    expect(await isErased({ subject: 'ada' })).toBe(false);
    expect(await isErased({ projectId: randomUUID() })).toBe(false);
    const calls = ['Bob', 'Ada'].map((subject) => ({ projectId, subject, startedAt: at }));
    expect(await isAnyErased(database(), calls)).toBe(true);
    expect(await isAnyErased(database(), [])).toBe(false);
  });
});
