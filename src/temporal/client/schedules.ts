/**
 * Maintains the gateway's schedules in Temporal. Currently there's only one, for the daily cleanup. We create or update
 * it whenever we (re)connect.
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
 * A schedule is updated in two steps, the first of which is a query. If Temporal's internal worker loses that query,
 * it's 5 s before Temporal sends it to another one, so our usual timeout would be too short.
 */
const requestTimeoutMs = 15_000;

type ScheduleOptions = Parameters<Temporal['client']['schedule']['create']>[0];
type Definition = Omit<ScheduleOptions, 'scheduleId' | 'memo'>;
type FilterAttributes = Temporal['filterAttributes'];
type ScheduleClient = Pick<Temporal, 'writeOnlyClient' | 'filterAttributes'>;

export function createSchedules({ writeOnlyClient, filterAttributes }: ScheduleClient, logger: Logger): Schedules {
  const countAttributes = (): number => describeDailyCleanup(filterAttributes).action.typedSearchAttributes.length;
  let isLogged = false;
  /**
   * How many search attributes the schedule had in its last successful update. Infinite if no update has succeeded yet.
   */
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
        // A timeout of a schedule request isn't an outage, because the server may still answer other requests.
        if (isUnavailable(error) && !signal.aborted) throw error;
        if (!isLogged) logger.warn({ err: error, schedule: scheduleId }, 'Temporal rejected a schedule; retrying');
        isLogged = true;
        attributeCount = Number.POSITIVE_INFINITY;
        return false;
      }
    },
    lackAttributes: () => attributeCount < countAttributes(),
  };
}

/**
 * Creates or updates the schedule. An update keeps whatever an operator has set, such as a pause. We don't read the
 * current action, because we may have lost the key for its payload.
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
    // At 03:17 UTC, the database usually doesn't have much to do. If the service is down at that time, the run starts
    // later, within the catch-up window.
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
