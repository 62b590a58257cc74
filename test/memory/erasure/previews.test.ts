/**
 * Tests what people see before they delete something, i.e. the counts of an erasure, and the conversations that a
 * deletion period affects.
 */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { previewErasure } from '../../../src/memory/erasure/erasure-preview.ts';
import { listErasures } from '../../../src/memory/erasure/erasure-report.ts';
import { createRetention } from '../../../src/memory/erasure/retention.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { previewRetention } from '../../../src/memory/records/deletion-rule.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, markAllRead, putMemorySettings, record, settledCall } from '../calls.ts';

const dayMs = 24 * 3_600_000;
/** Ten days after the first call in `calls.ts`. */
const clock = { now: () => Date.UTC(2026, 10, 30, 10) };

describeDatabases('previews', (database) => {
  const talk = (projectId: string, days: number, subject: string | null = null) =>
    settledCall({ projectId, at: days * 86_400, subject, body: chatBody(`u on day ${days}`), answer: 'noted' });

  test('shows what an erasure would delete without deleting it', async () => {
    const projectId = await createProject(database());
    const items = createItems({ database: database(), clock: systemClock });
    const by = { origin: 'agent', author: 'key:a' } as const;
    const memory = (subject: string) => ({ text: `likes ${subject}`, kind: 'fact' as const, importance: 3, subject, pinned: false });
    for (const subject of ['ann', 'ann', 'bob']) await items.write(projectId, memory(subject), by);
    await record(database(), [talk(projectId, 1, 'ann'), talk(projectId, 2, 'bob')]);
    const preview = await previewErasure(database(), projectId, 'ann');
    expect(preview).toEqual({ memories: 2, profile_pages: 0, episodes: 1, calls: 0, graph_facts: 0, prompts: 1 });
    const erasure = await createErase({ database: database(), clock: systemClock })({ projectId, subject: 'ann', askedBy: 'person:1' });
    const { prompts, ...receipt } = preview;
    expect(erasure.deleted).toMatchObject(receipt);
    expect(await previewErasure(database(), projectId, 'ann')).toEqual({ ...preview, memories: 0, episodes: 0, prompts: 0 });
    expect(await previewErasure(database(), projectId, 'bob')).toEqual({ ...preview, memories: 1 });
    const [listed] = await listErasures(database(), projectId, 10);
    expect(listed).toMatchObject({ id: erasure.id, askedBy: 'person:1' });
    expect(await listErasures(database(), projectId, 10, erasure.id)).toEqual([]);
  });

  test('counts what the next daily cleanup will delete', async () => {
    const projectId = await createProject(database());
    await record(database(), [talk(projectId, 0), talk(projectId, 2), talk(projectId, 9)]);
    await markAllRead(database(), projectId);
    const period = (days: number) => previewRetention({ database: database(), clock }, projectId, days);
    const oldestTurn = new Date(Date.UTC(2026, 10, 20, 10, 0, 1));
    expect(await period(7)).toEqual({ conversations: 2, closedItems: 0, oldestTurn });
    expect(await period(30)).toEqual({ conversations: 0, closedItems: 0, oldestTurn });
    await putMemorySettings(database(), projectId, { delete_conversations_after_days: 7 });
    expect(await createRetention({ database: database(), clock }).conversations()).toBe(2);
    expect((await period(7)).oldestTurn?.getTime()).toBe(oldestTurn.getTime() + 9 * dayMs);
    const empty = await createProject(database());
    expect(await previewRetention({ database: database(), clock }, empty, 7)).toEqual({
      conversations: 0,
      closedItems: 0,
      oldestTurn: null,
    });
  });
});
