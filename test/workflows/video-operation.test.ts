import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { createVideoActivities, type VideoActivityDeps } from '../../activities/create-activities.ts';
import { gatewayError } from '../../src/core/errors.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import type { VideoPollResult } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { detailsOf, sharedTemporal, until } from '../support/temporal.ts';

const planted = 'a film about the patient';
const completed = { kind: 'settled', outcome: 'completed', code: null } as const;

function entryOf(id: string): { workflow: string; workflowId: string; input: { call_id: string } } {
  return { workflow: 'videoOperation', workflowId: `video/${id}`, input: { call_id: id } };
}

describe('videoOperation', () => {
  const shared = sharedTemporal();

  describe('with one worker', () => {
    /** What the vendor responds, by call. */
    const polls = new Map<string, VideoActivityDeps['pollVideo']>();
    let worker: RunningWorker;
    beforeAll(async () => {
      const pollVideo: VideoActivityDeps['pollVideo'] = async (callId, signal) => {
        const poll = polls.get(callId);
        if (!poll) throw new Error('no test has started this video');
        return poll(callId, signal);
      };
      worker = shared().work(createVideoActivities({ pollVideo }));
      await shared().temporal.probe();
    });
    afterAll(() => worker.stop());

    async function start(id: string, pollVideo: VideoActivityDeps['pollVideo']): Promise<WorkflowHandle> {
      const { temporal } = shared();
      polls.set(id, pollVideo);
      await temporal.start(entryOf(id));
      return temporal.client.workflow.getHandle(`video/${id}`);
    }
    /** Runs one workflow to its end and returns its history as Temporal stores it. */
    async function run(id: string, pollVideo: VideoActivityDeps['pollVideo']): Promise<string> {
      const handle = await start(id, pollVideo);
      await handle.result();
      return rawHistory(await handle.fetchHistory());
    }

    test('polls a video until it is settled', async () => {
      const polled: string[] = [];
      const results: VideoPollResult[] = [
        { kind: 'wait', waitMs: 1_500.2, unreachable: false },
        { kind: 'wait', waitMs: 0, unreachable: true },
        { kind: 'settled', outcome: 'vendor_failed', code: 'FILTERED' },
      ];
      const history = await run('a', async (callId) => {
        polled.push(callId);
        return { ...(results.shift() ?? { kind: 'gone' }), uris: [planted] };
      });
      expect(polled).toEqual(['a', 'a', 'a']);
      // A wait of 0 becomes a second, so that it never spins.
      expect(history.match(/"startToFireTimeout":\{[^}]*\}/g)).toHaveLength(2);
      expect(history).toContain('pollVideo');
      expect(history).not.toContain('patient');
      expect(history).toContain('poll the vendor, poll 3');
      expect(history).toMatch(/next poll at [0-9]{2}:[0-9]{2}:[0-9]{2} UTC/);
      expect(await shared().temporal.client.workflow.getHandle('video/a').result()).toEqual({
        outcome: 'vendor_failed',
        code: 'FILTERED',
        polls: 3,
      });
    });

    test('ends the workflow if the video no longer exists', async () => {
      let seen = 0;
      await run('b', async () => {
        seen++;
        return { kind: 'gone' };
      });
      expect(seen).toBe(1);
    });

    test('polls a video again after a database failure', async () => {
      let seen = 0;
      const history = await run('c', async () => {
        if (seen++ === 0) throw gatewayError('budget_unavailable', { message: planted, cause: new Error(planted) });
        return completed;
      });
      expect(seen).toBe(2);
      expect(history).not.toContain('patient');
    });

    test('can be cancelled while it waits for a video', async () => {
      const handle = await start('d', async () => ({ kind: 'wait', waitMs: 3_600_000, unreachable: false, giveUpMs: 7_200_000 }));
      await until(
        'it waits',
        async () => (await handle.fetchHistory()).events?.some((event) => event.timerStartedEventAttributes) ?? false,
      );
      expect(await handle.query('status')).toMatchObject({ state: 'running', polls: 1 });
      expect(await detailsOf(handle)).toMatch(/If the vendor does not say how it ended, the run gives up at .* UTC\./);
      await handle.cancel();
      await until('it has ended', async () => (await handle.describe()).status.name === 'CANCELLED');
    });
  });

  test('aborts the vendor request when the worker stops', async () => {
    const { temporal, work } = shared();
    let aborted = false;
    let isPolled = false;
    const first = work(
      createVideoActivities({
        pollVideo: (_callId, signal) =>
          new Promise((_resolve, reject) => {
            isPolled = true;
            signal.addEventListener('abort', () => {
              aborted = true;
              reject(signal.reason);
            });
          }),
      }),
    );
    await temporal.probe();
    await temporal.start(entryOf('e'));
    await until('the vendor is polled', () => isPolled);
    await first.stop();
    expect(aborted).toBe(true);
    const second = work(createVideoActivities({ pollVideo: async () => completed }));
    await temporal.client.workflow.getHandle('video/e').result();
    await second.stop();
  });
});
