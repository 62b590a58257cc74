/** Temporal's schedules: the daily cleanup. Created or updated at each (re)connection. */
import { memoryQueue } from '../../../workflows/contract.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';
import { grpcCodeOf } from '../connection/temporal-connection.ts';
import type { Temporal } from './temporal.ts';

const scheduleId = 'daily-cleanup';
const requestTimeoutMs = 5_000;
/** gRPC codes of a server that rejects schedules: INVALID_ARGUMENT, PERMISSION_DENIED, UNIMPLEMENTED. */
const rejectionCodes: readonly unknown[] = [3, 7, 12];

const schedule: Omit<Parameters<Temporal['client']['schedule']['create']>[0], 'scheduleId' | 'memo'> = {
  // 03:17 UTC, when database load is usually low. The catch-up window covers a service that was off at that time.
  spec: { calendars: [{ hour: 3, minute: 17 }] },
  policies: { overlap: 'SKIP', catchupWindow: '2 days' },
  action: {
    type: 'startWorkflow',
    workflowType: 'dailyCleanup',
    workflowId: 'cleanup/daily',
    taskQueue: memoryQueue,
    args: [{ step: null }],
  },
};

/** Creates or updates the schedules. Throws when Temporal is unavailable; only logs when the server rejects schedules. */
export async function ensureSchedules({ client }: Temporal, logger: Logger): Promise<void> {
  try {
    await client.withAbortSignal(AbortSignal.timeout(requestTimeoutMs), async () => {
      try {
        await client.schedule.create({ scheduleId, ...schedule });
      } catch (error) {
        if (!isObject(error) || error['name'] !== 'ScheduleAlreadyRunning') throw error;
        // Keeps what an operator has set, such as a pause.
        await client.schedule.getHandle(scheduleId).update(({ state }) => ({ ...schedule, state }));
      }
    });
  } catch (error) {
    if (!rejectionCodes.includes(grpcCodeOf(error))) throw error;
    logger.warn({ err: error }, 'daily cleanup schedule rejected');
  }
}
