import { describe, expect, test } from '@jest/globals';
import { createTemporal } from '../../src/jobs/client/temporal.ts';
import { rawHistory } from '../support/histories.ts';
import { createTestLog, sharedTemporal, until } from '../support/temporal.ts';

const projectId = '0198c5f2-7d2e-7000-8000-00000000000a';

describe('search attributes', () => {
  const shared = sharedTemporal();

  const entryOf = (id: string) => ({
    workflow: 'conversationIdle',
    workflowId: `conversation/${id}/1`,
    input: { conversation_id: id, opened: 1 },
    projectId,
  });

  test('find runs by project and kind once they are registered', async () => {
    const { temporal } = shared();
    await temporal.probe();
    let n = 0;
    await until('a start has its attributes', async () => {
      const id = `find-${n++}`;
      await temporal.probe();
      await temporal.start(entryOf(id));
      const { searchAttributes } = await temporal.client.workflow.getHandle(`conversation/${id}/1`).describe();
      return (
        JSON.stringify(searchAttributes) ===
        JSON.stringify({ ...searchAttributes, GatewayKind: ['conversation'], GatewayProject: [projectId] })
      );
    });
    await until('they are found', async () => {
      const found: string[] = [];
      for await (const run of temporal.client.workflow.list({ query: `GatewayProject="${projectId}" and GatewayKind="conversation"` }))
        found.push(run.workflowId);
      return found.includes(`conversation/find-${n - 1}/1`);
    });
  });

  test('are omitted from a start where the server does not have them', async () => {
    const { server, temporal } = shared();
    await temporal.probe();
    const { logger, lines } = createTestLog();
    const other = createTemporal({ address: server.address, namespace: 'model-gateway-forgetful', createNamespace: true, logger });
    try {
      await other.probe();
      // As after a server has lost its state without the client noticing.
      await until('the new namespace exists', async () => {
        await other.probe();
        const names = ['GatewayProject', 'GatewayKind'];
        return other.client.connection.operatorService
          .removeSearchAttributes({ namespace: 'model-gateway-forgetful', searchAttributes: names })
          .then(
            () => true,
            (error: { code?: unknown }) => (error.code === 5 ? false : Promise.reject(error)),
          );
      });
      await until('the new namespace accepts starts', async () => {
        await other.start(entryOf('plain'));
        return true;
      });
      const handle = other.client.workflow.getHandle('conversation/plain/1');
      expect((await handle.describe()).status.name).toBe('RUNNING');
      expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
    } finally {
      await other.close();
    }
  });

  test('are kept when the server rejects a start for another reason', async () => {
    const { temporal } = shared();
    await until('they are usable', async () => {
      await temporal.probe();
      return temporal.areAttributesUsable();
    });
    const start = temporal.start({ ...entryOf('nameless'), signal: { name: '', input: {} } });
    await expect(start).rejects.toMatchObject({ name: 'PermanentStartError' });
    expect(temporal.areAttributesUsable()).toBe(true);
  });

  test('a signal starts a workflow that does not run, and its payload is checked', async () => {
    const { temporal } = shared();
    await temporal.probe();
    const signal = { name: 'batchEnded', input: { batch_id: 'b1' } };
    await temporal.start({ ...entryOf('signalled'), signal });
    await temporal.start({ ...entryOf('signalled'), signal });
    const history = rawHistory(await temporal.client.workflow.getHandle('conversation/signalled/1').fetchHistory());
    expect(history.match(/batchEnded/g)).toHaveLength(2);
    expect(history).toContain('b1');
    const bad = { ...entryOf('bad'), signal: { name: 'batchEnded', input: { text: 'the patient said' } } };
    await expect(temporal.start(bad)).rejects.toMatchObject({ name: 'PermanentStartError' });
  });
});
