/** What Temporal starts by itself: the daily cleanup. Made at each (re)connection, or brought up to date where it is there already. */
import { memoryQueue } from '../../../workflows/contract.ts';
import { errorSummary } from '../../core/error-messages.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';
import { grpcCodeOf } from '../connection/temporal-connection.ts';
import type { Temporal } from './temporal.ts';

const scheduleId = 'daily-cleanup';
const requestTimeoutMs = 5_000;
/** gRPC's numbers for a server that does not let us: INVALID_ARGUMENT, PERMISSION_DENIED, UNIMPLEMENTED. */
const rejectionCodes: readonly unknown[] = [3, 7, 12];

const schedule: Omit<Parameters<Temporal['client']['schedule']['create']>[0], 'scheduleId' | 'memo'> = {
  // At night in most of the places where somebody might wait for the database. A service that was off then does it when it is back.
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

/** Throws when Temporal is away; a server that does not let us have schedules is said in the log. */
export async function ensureSchedules({ client }: Temporal, logger: Logger): Promise<void> {
  try {
    await client.withAbortSignal(AbortSignal.timeout(requestTimeoutMs), async () => {
      try {
        await client.schedule.create({ scheduleId, ...schedule });
      } catch (error) {
        if (!isObject(error) || error['name'] !== 'ScheduleAlreadyRunning') throw error;
        // What an operator has set, such as a pause, stays.
        await client.schedule.getHandle(scheduleId).update(({ state }) => ({ ...schedule, state }));
      }
    });
  } catch (error) {
    if (!rejectionCodes.includes(grpcCodeOf(error))) throw error;
    logger.warn({ err: error }, `Temporal does not take the schedule of the daily cleanup: ${errorSummary(error)}`);
  }
}
