import { describe, expect, test } from '@jest/globals';
import { sharedTemporal, until } from '../support/temporal.ts';
import { prepareTestBundle } from '../support/workflow-bundle.ts';

const autoUpgrade = 2;

describe('TEMPORAL_WORKER_BUILD_ID', () => {
  const shared = sharedTemporal();

  test('continues a waiting workflow run on the workers of the next build', async () => {
    const { temporal, server } = shared();
    await temporal.probe();
    const checks: string[] = [];
    const workOn = (buildId: string) =>
      temporal.startWorker({
        activities: {
          async lookAtLearning() {
            checks.push(buildId);
            return { kind: 'idle' };
          },
        },
        bundle: prepareTestBundle,
        buildId,
        graceMs: 1_000,
      });
    const { workflowService } = temporal.client.connection;
    const makeCurrent = (buildId: string): Promise<void> =>
      until(`${buildId} is the current build`, () =>
        workflowService.setWorkerDeploymentCurrentVersion({ namespace: server.namespace, deploymentName: 'model-gateway', buildId }).then(
          () => true,
          () => false, // It can't before its workers have polled.
        ),
      );
    const behaviourOf = async (workflowId: string): Promise<number> =>
      Number((await temporal.client.workflow.getHandle(workflowId).describe()).raw.workflowExecutionInfo?.versioningInfo?.behavior ?? 0);

    const learning = { workflow: 'projectLearning', workflowId: 'learning/a', input: { project_id: 'a' } };
    const first = workOn('one');
    await makeCurrent('one');
    await temporal.start(learning);
    await until('the project was checked', () => checks.length > 0);
    await until('its first task is done', async () => (await behaviourOf('learning/a')) > 0);
    expect(await behaviourOf('learning/a')).toBe(autoUpgrade);
    await first.stop();

    const second = workOn('two');
    await makeCurrent('two');
    await temporal.start({ ...learning, signal: { name: 'look', input: {} } });
    await until('the next build checks', () => checks.includes('two'));
    await second.stop();
  });
});
