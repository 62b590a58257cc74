/** An erasure to its end: a real Temporal server waits for the process, deletes the run of the conversation and verifies the result. */
import { expect, test } from '@jest/globals';
import { eventually, jsonOf, withGateway } from '../support/gateway.ts';

interface ErasureJson {
  readonly id: string;
  readonly done_at: string | null;
  readonly deleted: Readonly<Record<string, number>>;
  readonly workflows: { readonly state: string; readonly purged: number };
}

test('200, then done: the run of the conversation is deleted from Temporal', async () => {
  await withGateway({ temporal: true }, async ({ app, url, key, call, admin, database, project }) => {
    app.startDurable();
    const messages = [{ role: 'user', content: 'text of the subject' }];
    await (await call('/v1/chat/completions', { model: 'one/echo', messages }, { 'x-gateway-memory-subject': 'u' })).text();
    await eventually(async () => expect(await database.query(`select 1 from conversations where state = 'read'`)).toHaveLength(1), 200_000);
    const headers = { authorization: `Bearer ${key}` };
    const { id } = await jsonOf<ErasureJson>(fetch(`${url}/v1/memory/subjects/u`, { method: 'DELETE', headers }));
    await eventually(async () => {
      const report = await jsonOf<ErasureJson>(admin('GET', `/provision/teams/${project}/erasures/${id}`));
      expect(report.workflows).toMatchObject({ state: 'done', purged: 1 });
      expect(report.done_at).not.toBeNull();
      expect(report.deleted).toMatchObject({ calls: 1, episodes: 1, call_parts: 2 });
    }, 300_000);
  });
}, 300_000);
