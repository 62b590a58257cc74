import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { toEpisodeJson } from '../../../src/http/shapes/memory-json.ts';
import { createEpisodes } from '../../../src/memory/conversations/episodes.ts';
import { describeAnyDatabase } from '../../db/databases.ts';
import { chatBody, createProject, listConversations, record, settledCall } from '../calls.ts';

const weatherCall = { name: 'get_weather', arguments: '{"city":"Oslo"}' };
const idleMs = 600_000;

describeAnyDatabase('episodes', (database) => {
  const episodes = () => createEpisodes({ database: database() });

  async function getEpisode(projectId: string, id: string): Promise<Record<string, unknown> | null> {
    const episode = await episodes().get(projectId, id);
    return episode && toEpisodeJson(episode);
  }

  /** Stores a conversation that has two calls and whose last turn ended at 10:00:11. */
  async function storeConversation(subject: string | null = null): Promise<{ projectId: string; id: string }> {
    const projectId = await createProject(database());
    const history = [
      { role: 'user', content: ' Weather\nin   Oslo? ' },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: weatherCall }] },
      { role: 'tool', tool_call_id: 'c', content: '4' },
    ];
    await record(database(), [
      settledCall({ projectId, subject, at: 0, body: { messages: history.slice(0, 1) }, answer: { text: '', toolCalls: [weatherCall] } }),
      settledCall({ projectId, subject, at: 10, body: { messages: history }, answer: '4 degrees.' }),
    ]);
    return { projectId, id: (await listConversations(database(), projectId))[0]?.id ?? '' };
  }

  /** Sets the end of the last turn relative to the database clock. */
  async function setLastTurn(id: string, agoMs: number): Promise<void> {
    await database().query(`update conversations set last_turn_at = now() - $2::float8 * interval '1 ms' where id = $1::uuid`, [id, agoMs]);
  }

  const text = 'user: Weather\nin   Oslo?\nassistant: [calls get_weather({"city":"Oslo"})]\nassistant: 4 degrees.';

  test('returns a stored conversation including its current messages', async () => {
    const { projectId, id } = await storeConversation('ann');
    expect(await getEpisode(projectId, id)).toEqual({
      id,
      object: 'memory.episode',
      title: null,
      subject: 'ann',
      source: 'acme',
      state: 'stored',
      turns: 3,
      started_at: '2026-11-20T10:00:00Z',
      last_turn_at: '2026-11-20T10:00:11Z',
      read_at: null,
      text,
      messages: [
        { role: 'user', content: ' Weather\nin   Oslo? ', created_at: '2026-11-20T10:00:00Z' },
        { role: 'assistant', content: '', tool_calls: [weatherCall], created_at: '2026-11-20T10:00:01Z' },
        { role: 'assistant', content: '4 degrees.', created_at: '2026-11-20T10:00:11Z' },
      ],
    });
  });

  test('returns null for an unknown conversation or one in another project', async () => {
    const { id } = await storeConversation();
    expect(await getEpisode(await createProject(database()), id)).toBeNull();
    expect(await getEpisode(await createProject(database()), randomUUID())).toBeNull();
  });

  test('closes a conversation once it has been idle long enough', async () => {
    const { projectId, id } = await storeConversation();
    await setLastTurn(id, idleMs);
    expect(await episodes().closeConversation({ conversationId: id, opened: 1, idleMs })).toEqual({ kind: 'read' });
    const read = await getEpisode(projectId, id);
    expect(read).toMatchObject({ state: 'read', title: 'Weather in Oslo?', text, turns: 3, read_at: expect.stringMatching(/Z$/) });
    expect(await episodes().closeConversation({ conversationId: id, opened: 1, idleMs })).toEqual({ kind: 'read' });
    expect(await getEpisode(projectId, id)).toEqual(read);
  });

  test('uses the database clock to tell how soon a conversation will be idle', async () => {
    const { projectId, id } = await storeConversation();
    await setLastTurn(id, idleMs - 5_000);
    const result = await episodes().closeConversation({ conversationId: id, opened: 1, idleMs });
    expect(result).toEqual({ kind: 'wait', waitMs: expect.any(Number) });
    const waitMs = result.kind === 'wait' ? result.waitMs : 0;
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(5_000);
    expect(await getEpisode(projectId, id)).toMatchObject({ state: 'stored', title: null, read_at: null });
  });

  test('distinguishes a deleted conversation from a reopened one', async () => {
    const { projectId, id } = await storeConversation();
    await setLastTurn(id, idleMs);
    await episodes().closeConversation({ conversationId: id, opened: 1, idleMs });
    const history = ['u  Weather\nin   Oslo? ', 'a 4 degrees.'];
    await record(database(), [settledCall({ projectId, at: 100, body: chatBody(...history, 'u x'), answer: 'y', source: 'other' })]);
    await database().query(`update conversations set opened = 2, state = 'stored' where id = $1::uuid`, [id]);
    expect(await episodes().closeConversation({ conversationId: id, opened: 1, idleMs })).toEqual({ kind: 'superseded' });
    await database().query(`delete from conversations where id = $1::uuid`, [id]);
    expect(await episodes().closeConversation({ conversationId: id, opened: 2, idleMs })).toEqual({ kind: 'gone' });
    expect(await getEpisode(projectId, id)).toBeNull();
  });

  test('shows all messages of a conversation that continued after it was closed', async () => {
    const projectId = await createProject(database());
    await record(database(), [settledCall({ projectId, at: 0, body: chatBody('u q1'), answer: 'r1' })]);
    const id = (await listConversations(database(), projectId))[0]?.id ?? '';
    await setLastTurn(id, idleMs);
    await episodes().closeConversation({ conversationId: id, opened: 1, idleMs });
    await record(database(), [settledCall({ projectId, at: 20, body: chatBody('u q1', 'a r1', 'u q2'), answer: 'r2' })]);
    const whole = 'user: q1\nassistant: r1\nuser: q2\nassistant: r2';
    expect(await getEpisode(projectId, id)).toMatchObject({ state: 'stored', title: 'q1', text: whole, turns: 4, read_at: null });
    await setLastTurn(id, idleMs);
    expect(await episodes().closeConversation({ conversationId: id, opened: 2, idleMs })).toEqual({ kind: 'read' });
    expect(await getEpisode(projectId, id)).toMatchObject({ state: 'read', text: whole });
  });

  test('limits a conversation title to one line of 200 code points', async () => {
    const projectId = await createProject(database());
    const image = { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://images.test/a.png' } }] };
    await record(database(), [
      settledCall({ projectId, at: 0, body: chatBody(`u ${'👋'.repeat(300)}`), answer: 'r' }),
      settledCall({ projectId, at: 1, body: { messages: [image] }, answer: 'A cat.' }),
    ]);
    const titles: unknown[] = [];
    for (const { id } of await listConversations(database(), projectId)) {
      await setLastTurn(id, idleMs);
      await episodes().closeConversation({ conversationId: id, opened: 1, idleMs });
      titles.push((await getEpisode(projectId, id))?.['title']);
    }
    expect(titles).toEqual(['👋'.repeat(200), null]);
  });
});
