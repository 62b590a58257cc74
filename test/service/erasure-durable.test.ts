/**
 * Runs a complete erasure. A real Temporal server waits for the process, deletes the run of the conversation and
 * verifies the result.
 */
import { expect, test } from '@jest/globals';
import { enqueue } from '../../src/db/outbox.ts';
import { eventually, jsonOf, withGateway } from '../support/gateway.ts';

interface ErasureJson {
  readonly id: string;
  readonly done_at: string | null;
  readonly deleted: Readonly<Record<string, number>>;
  readonly workflows: { readonly state: string; readonly purged: number };
}

test('deletes a Temporal run that an older version started for the conversation', async () => {
  await withGateway({ database: 'any', temporal: true }, async ({ app, url, key, call, admin, database, project }) => {
    app.startDurable();
    const messages = [{ role: 'user', content: 'text of the subject' }];
    await (await call('/v1/chat/completions', { model: 'one/echo', messages }, { 'x-gateway-memory-subject': 'u' })).text();
    const conversations = () => database.query<{ id: string }>(`select id from conversations where state = 'read'`);
    await eventually(async () => expect(await conversations()).toHaveLength(1));
    const [conversation = { id: '' }] = await conversations();
    const input = { conversation_id: conversation.id, opened: 1 };
    const entry = { workflow: 'conversationIdle', workflowId: `conversation/${conversation.id}/1`, input };
    await database.transaction((tx) => enqueue(tx, [entry]));
    await eventually(async () =>
      expect(await database.query('select 1 from outbox where workflow = $1::text', [entry.workflow])).toEqual([]),
    );
    const headers = { authorization: `Bearer ${key}` };
    const { id } = await jsonOf<ErasureJson>(fetch(`${url}/v1/memory/subjects/u`, { method: 'DELETE', headers }));
    await eventually(async () => {
      const report = await jsonOf<ErasureJson>(admin('GET', `/provision/teams/${project}/erasures/${id}`));
      expect(report.workflows).toMatchObject({ state: 'done', purged: 1 });
      expect(report.done_at).not.toBeNull();
      expect(report.deleted).toMatchObject({ calls: 1, episodes: 1, call_parts: 2 });
    });
  });
});
