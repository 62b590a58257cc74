/** Temporal's schedules: the daily cleanup. Created or updated at each (re)connection. */
import { memoryQueue } from '../../../workflows/contract.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';
import { isUnavailable } from '../connection/temporal-connection.ts';
import { describeRun } from './describe-run.ts';
import type { Temporal } from './temporal.ts';

const scheduleId = 'daily-cleanup';
const requestTimeoutMs = 5_000;

type ScheduleOptions = Parameters<Temporal['client']['schedule']['create']>[0];
type ScheduleClient = Pick<Temporal, 'writeOnlyClient' | 'areAttributesUsable'>;

/**
 * Returns a function that creates or updates the schedules. It resolves to whether they are as they should be; a server may reject them, or
 * not know the search attributes yet. Rejects only when Temporal is unavailable.
 */
export function createSchedules({ writeOnlyClient, areAttributesUsable }: ScheduleClient, logger: Logger): () => Promise<boolean> {
  let isLogged = false;
  return async () => {
    const withAttributes = areAttributesUsable();
    try {
      await writeOnlyClient.withAbortSignal(AbortSignal.timeout(requestTimeoutMs), () => putDailyCleanup(writeOnlyClient, withAttributes));
      isLogged = false;
      return withAttributes;
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (!isLogged) logger.warn({ err: error, schedule: scheduleId }, 'schedule rejected; retrying');
      isLogged = true;
      return false;
    }
  };
}

/** An update does not read the action, whose payload key may be lost. It keeps what an operator has set, such as a pause. */
async function putDailyCleanup({ schedule: schedules }: Temporal['writeOnlyClient'], withAttributes: boolean): Promise<void> {
  const schedule = describeDailyCleanup(withAttributes);
  try {
    await schedules.create({ scheduleId, ...schedule });
  } catch (error) {
    if (!isObject(error) || error['name'] !== 'ScheduleAlreadyRunning') throw error;
    await schedules.getHandle(scheduleId).update(({ state }) => ({ ...schedule, state }));
  }
}

function describeDailyCleanup(withAttributes: boolean): Omit<ScheduleOptions, 'scheduleId' | 'memo'> {
  const workflowType = 'dailyCleanup';
  const workflowId = 'cleanup/daily';
  const input = { step: null };
  const { searchAttributes, ...description } = describeRun(workflowType, { workflow: workflowType, workflowId, input });
  return {
    // 03:17 UTC, when database load is usually low. The catch-up window covers a service that was off at that time.
    spec: { calendars: [{ hour: 3, minute: 17 }] },
    policies: { overlap: 'SKIP', catchupWindow: '2 days' },
    action: {
      type: 'startWorkflow',
      workflowType,
      workflowId,
      taskQueue: memoryQueue,
      args: [input],
      ...description,
      ...(withAttributes && { typedSearchAttributes: [...searchAttributes] }),
    },
  };
}
