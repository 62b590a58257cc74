import { expect, it } from '@jest/globals';
import { lockProject } from '../../src/db/locks.ts';
import { signIn } from '../support/console.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';
import { textOf } from '../support/page-text.ts';
import { describePostgres } from '../support/postgres.ts';

describePostgres('console pages of a locked project', () => {
  const gateway = shareGateway({ database: 'server' });

  it('console pages include calls that were made while the project was locked', async () => {
    const { app, database, admin, call } = gateway();
    const owner = await signIn(gateway(), 'owner');
    const projectId = (await app.projects.findBySlug('acme'))?.id ?? '';
    let pages: Promise<string[]> = Promise.resolve([]);
    await database.transaction(async (tx) => {
      await lockProject(tx, projectId, 'exclusive');
      const body = { model: 'one/echo', messages: [{ role: 'user', content: 'hello' }] };
      const headers = { 'x-gateway-source': 'new-app', 'x-gateway-memory': 'write', 'x-gateway-memory-subject': 'ann' };
      const response = await call('/v1/chat/completions', body, headers);
      expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
      // A report about all projects waits until the drain has set this project aside.
      const waitForDrain = () => jsonOf(admin('GET', '/provision/usage'));
      await waitForDrain();
      pages = Promise.all(['/calls', '/conversations', '/erase?subject=ann'].map((path) => textOf(owner.get(`/console/p/acme${path}`))));
      await waitForDrain();
    });
    const [calls, conversations, preview] = await pages;
    expect(calls).toContain('new-app');
    expect(conversations).toContain('new-app');
    expect(preview).toMatch(/Conversations 1 Stored prompts 1/);
  });
});
