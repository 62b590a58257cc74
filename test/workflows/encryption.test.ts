import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { gatewayError } from '../../src/core/errors.ts';
import { createTemporal } from '../../src/temporal/client/temporal.ts';
import type { Activities } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { createTestLog, sharedTemporal, until } from '../support/temporal.ts';
import { prepareTestBundle } from '../support/workflow-bundle.ts';

describe('payload encryption', () => {
  const shared = sharedTemporal();

  test('encrypts ids and error messages in the workflow history', async () => {
    const { server } = shared();
    const connection = { address: server.address, namespace: server.namespace, logger: createTestLog().logger };
    const temporal = createTemporal({ ...connection, payloadKeys: [randomBytes(32)] });
    const withoutKey = createTemporal(connection);
    const seen: string[] = [];
    const activities: Pick<Activities, 'lookAtLearning'> = {
      async lookAtLearning({ project_id: projectId }) {
        seen.push(projectId);
        if (seen.length === 1) throw gatewayError('query_failed');
        return { kind: 'gone' };
      },
    };
    const worker = temporal.startWorker({ activities, bundle: prepareTestBundle, graceMs: 1_000 });
    try {
      const isReady = (): Promise<boolean> =>
        temporal.probe().then(
          () => true,
          () => false,
        );
      await until('the server responds within the time limit of a request', isReady);
      const workflowId = 'learning/a';
      await temporal.start({ workflow: 'projectLearning', workflowId, input: { project_id: 'planted-id' } });
      await temporal.client.workflow.getHandle(workflowId).result();
      expect(seen).toEqual(['planted-id', 'planted-id']);
      const history = rawHistory(await withoutKey.client.workflow.getHandle(workflowId).fetchHistory());
      expect(history).toContain('binary/encrypted');
      expect(history).toContain('Encoded failure');
      expect(history).toContain('query_failed');
      expect(history).toContain('start learning batches when they are due');
      expect(history).not.toContain('planted-id');
      expect(history).not.toContain('internal error');
    } finally {
      await worker.stop();
      await Promise.all([temporal.close(), withoutKey.close()]);
    }
  });

  test('lists and deletes runs whose memo was encrypted with a different key', async () => {
    const { server } = shared();
    const [writer, eraser] = [randomBytes(32), randomBytes(32)].map((key) =>
      createTemporal({ address: server.address, namespace: server.namespace, logger: createTestLog().logger, payloadKeys: [key] }),
    );
    if (!writer || !eraser) throw new Error('two clients');
    try {
      const workflowId = 'conversation/memo/1';
      await writer.client.workflow.start('conversationIdle', { workflowId, taskQueue: 'none', args: [], memo: { encrypted: { id: 'a' } } });
      await expect(eraser.client.workflow.getHandle(workflowId).describe()).rejects.toThrow(
        'TEMPORAL_PAYLOAD_KEY does not contain the key',
      );
      const counts: number[] = [];
      await until('the run is listed', async () => {
        await eraser.deleteRuns(workflowId, async (count) => void counts.push(count));
        return counts.includes(1);
      });
      await until('it is deleted', () =>
        writer.client.workflow
          .getHandle(workflowId)
          .describe()
          .then(
            () => false,
            () => true,
          ),
      );
    } finally {
      await Promise.all([writer.close(), eraser.close()]);
    }
  });
});
