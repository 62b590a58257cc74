/**
 * Maintains the gateway's schedules in Temporal. There is only one, for the daily cleanup. We create or update it
 * whenever we (re)connect.
 */
import { memoryQueue } from '../../../workflows/contract.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';
import { isUnavailable } from '../connection/temporal-connection.ts';
import type { Schedules } from '../outbox/dispatcher.ts';
import { describeRun } from './describe-run.ts';
import type { Temporal } from './temporal.ts';

const scheduleId = 'daily-cleanup';
/**
 * Updating a schedule begins with a query. If Temporal's internal worker loses the query, it takes 5 s until Temporal
 * sends it to another one, so we need a longer timeout.
 */
const requestTimeoutMs = 15_000;

type ScheduleOptions = Parameters<Temporal['client']['schedule']['create']>[0];
type Definition = Omit<ScheduleOptions, 'scheduleId' | 'memo'>;
type FilterAttributes = Temporal['filterAttributes'];
type ScheduleClient = Pick<Temporal, 'writeOnlyClient' | 'filterAttributes'>;

export function createSchedules({ writeOnlyClient, filterAttributes }: ScheduleClient, logger: Logger): Schedules {
  const countAttributes = (): number => describeDailyCleanup(filterAttributes).action.typedSearchAttributes.length;
  let isLogged = false;
  /** The number of search attributes that we last put on the schedule. Infinite at first. */
  let attributeCount = Number.POSITIVE_INFINITY;
  return {
    async put() {
      const schedule = describeDailyCleanup(filterAttributes);
      const signal = AbortSignal.timeout(requestTimeoutMs);
      try {
        await writeOnlyClient.withAbortSignal(signal, () => putDailyCleanup(writeOnlyClient, schedule));
        attributeCount = schedule.action.typedSearchAttributes.length;
        isLogged = false;
        return true;
      } catch (error) {
        // If only the schedule request times out, we don't treat it as an outage, because the server may still answer
        // other requests.
        if (isUnavailable(error) && !signal.aborted) throw error;
        if (!isLogged) logger.warn({ err: error, schedule: scheduleId }, 'schedule rejected; retrying');
        isLogged = true;
        attributeCount = Number.POSITIVE_INFINITY;
        return false;
      }
    },
    lackAttributes: () => attributeCount < countAttributes(),
  };
}

/**
 * Creates or updates the schedule. We don't read its current action, because the key for its payload may be lost.
 * Anything that an operator has set, such as a pause, is kept.
 */
async function putDailyCleanup({ schedule: schedules }: Temporal['writeOnlyClient'], schedule: Definition): Promise<void> {
  try {
    await schedules.create({ scheduleId, ...schedule });
  } catch (error) {
    if (!isObject(error) || error['name'] !== 'ScheduleAlreadyRunning') throw error;
    await schedules.getHandle(scheduleId).update(({ state }) => ({ ...schedule, state }));
  }
}

function describeDailyCleanup(filterAttributes: FilterAttributes) {
  const workflowType = 'dailyCleanup';
  const workflowId = 'cleanup/daily';
  const input = { step: null };
  const { searchAttributes, ...description } = describeRun(workflowType, { workflow: workflowType, workflowId, input });
  return {
    // Runs at 03:17 UTC, when the database usually has little load. If the service was down at that time, the run
    // starts within the catch-up window.
    spec: { calendars: [{ hour: 3, minute: 17 }] },
    policies: { overlap: 'SKIP', catchupWindow: '2 days' },
    action: {
      type: 'startWorkflow',
      workflowType,
      workflowId,
      taskQueue: memoryQueue,
      args: [input],
      ...description,
      typedSearchAttributes: filterAttributes(searchAttributes),
    },
  } satisfies Definition;
}
