import { describe, expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { createSchedules } from '../../src/temporal/client/schedules.ts';
import { createTemporal } from '../../src/temporal/client/temporal.ts';
import { searchAttributes } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { createTestLog, describeSchedule, putSchedules, sharedTemporal, until, warningsIn } from '../support/temporal.ts';

const projectId = '0198c5f2-7d2e-7000-8000-00000000000a';

describe('search attributes', () => {
  const shared = sharedTemporal();

  const entryOf = (id: string) => ({
    workflow: 'conversationIdle',
    workflowId: `conversation/${id}/1`,
    input: { conversation_id: id, opened: 1 },
    projectId,
  });

  test('finds Temporal runs by project and kind', async () => {
    const { temporal } = shared();
    await temporal.probe();
    let n = 0;
    await until('a start has its attributes', async () => {
      const id = `find-${n++}`;
      await temporal.probe();
      await temporal.start(entryOf(id));
      const { searchAttributes: found } = await temporal.client.workflow.getHandle(`conversation/${id}/1`).describe();
      return JSON.stringify(found) === JSON.stringify({ ...found, GatewayKind: ['conversation'], GatewayProject: [projectId] });
    });
    await until('they are found', async () => {
      const found: string[] = [];
      for await (const run of temporal.client.workflow.list({ query: `GatewayProject="${projectId}" and GatewayKind="conversation"` }))
        found.push(run.workflowId);
      return found.includes(`conversation/find-${n - 1}/1`);
    });
  });

  test("starts workflows without search attributes if the Temporal server doesn't have them", async () => {
    const { server, temporal } = shared();
    await temporal.probe();
    const { logger, lines } = createTestLog();
    const other = createTemporal({ address: server.address, namespace: 'model-gateway-forgetful', createNamespace: true, logger });
    try {
      await other.probe();
      // Simulates a server that has lost its state without the client noticing.
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

  test("omits only the search attributes that can't be registered", async () => {
    const { server } = shared();
    const namespace = 'model-gateway-full';
    const { logger, lines } = createTestLog();
    const temporal = createTemporal({ address: server.address, namespace, createNamespace: true, logger });
    const { operatorService, workflowService } = temporal.client.connection;
    try {
      await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: msToTs('1 day') });
      // The server allows ten keywords.
      const foreign = Array.from({ length: 8 }, (_, index) => `Foreign${index}`);
      const names = [...foreign, 'GatewayProject', 'GatewayKind'];
      const keywords = Object.fromEntries(names.map((name) => [name, 2]));
      await until('the namespace has its attributes', () =>
        operatorService.addSearchAttributes({ namespace, searchAttributes: keywords }).then(
          () => true,
          (error: { code?: unknown }) => (error.code === 5 ? false : Promise.reject(error)),
        ),
      );
      const schedules = createSchedules(temporal, logger);
      const scheduled = temporal.client.schedule.getHandle('daily-cleanup');
      let n = 0;
      await until('a start has the attributes that are registered', async () => {
        await temporal.probe();
        const id = `full-${n++}`;
        await temporal.start(entryOf(id)).catch(() => undefined); // The server has not propagated the namespace yet.
        const run = await temporal.client.workflow
          .getHandle(`conversation/${id}/1`)
          .describe()
          .catch(() => null);
        return run?.typedSearchAttributes.get(searchAttributes.project) === projectId;
      });
      await until('the saved filter finds it', async () => {
        const found = await Array.fromAsync(temporal.client.workflow.list({ query: `GatewayProject="${projectId}"` }));
        return found.some(({ workflowId }) => workflowId === `conversation/full-${n - 1}/1`);
      });
      await putSchedules(schedules);
      expect(schedules.lackAttributes()).toBe(false);
      expect((await describeSchedule(scheduled)).action).toMatchObject({ searchAttributes: { GatewayKind: ['cleanup'] } });
      expect(warningsIn(lines).map(({ fields }) => fields['searchAttributes'])).toEqual([
        ['GatewayProjectSlug', 'GatewayState', 'GatewayBatch'],
      ]);

      await operatorService.removeSearchAttributes({ namespace, searchAttributes: foreign.slice(0, 3) });
      await until('the schedule gets the attributes that have become available', async () => {
        await temporal.probe();
        if (!schedules.lackAttributes()) return false;
        return schedules.put().catch(() => false);
      });
      expect(schedules.lackAttributes()).toBe(false);
    } finally {
      await temporal.close();
    }
  });

  test('keeps search attributes if the Temporal server rejects a workflow for another reason', async () => {
    const { temporal } = shared();
    const areUsable = () => temporal.filterAttributes([{ key: searchAttributes.project, value: projectId }]).length > 0;
    await until('they are usable', async () => {
      await temporal.probe();
      return areUsable();
    });
    const start = temporal.start({ ...entryOf('nameless'), signal: { name: '', input: {} } });
    await expect(start).rejects.toMatchObject({ name: 'PermanentStartError' });
    expect(areUsable()).toBe(true);
  });

  test('sets search attributes when a signal starts a workflow', async () => {
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
