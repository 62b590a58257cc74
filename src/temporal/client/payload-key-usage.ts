/**
 * Finds out which payload keys the open runs and schedules in a namespace still need. A worker replays the whole
 * history of a run, and after a key rotation, a history can contain payloads that were encrypted with different keys.
 * So we have to read every event, but we don't have to decode the payloads.
 */
import { backoffDelays, retry } from '../../core/backoff.ts';
import {
  connect,
  grpcCodeOf,
  grpcStatus,
  isUnavailable,
  type TemporalOptions,
  withRequestTimeout,
} from '../connection/temporal-connection.ts';
import { encryptionKeyIdOf } from '../payloads/encryption.ts';

export type PayloadKeyUsage = Awaited<ReturnType<typeof readPayloadKeyUsage>>;

type Endpoint = Pick<TemporalOptions, 'address' | 'namespace' | 'tls' | 'apiKey'>;
type Service = ReturnType<typeof connect>['workflowService'];
type Execution = NonNullable<NonNullable<Awaited<ReturnType<Service['listOpenWorkflowExecutions']>>['executions']>[number]['execution']>;

const runsPerPage = 500;
/**
 * Limits how many histories are read at the same time. On a small server, a higher number would starve the gateway's
 * other requests.
 */
const historiesAtOnce = 8;
const maxExamples = 5;
const retryDelays = { initialMs: 200, maxMs: 2_000 };
const maxRetries = 4;

/**
 * The result's `keys` maps each key id to the runs and schedules that still need the key. Throws if the server is
 * unavailable or rejects a request.
 */
export async function readPayloadKeyUsage(endpoint: Endpoint) {
  const { namespace } = endpoint;
  const connection = connect(endpoint);
  const service = connection.workflowService;
  const keys = new Map<string, { runs: number; schedules: number; examples: string[] }>();
  let runs = 0;
  let schedules = 0;
  const record = (keyIds: ReadonlySet<string>, kind: 'runs' | 'schedules', example: string): void => {
    for (const id of keyIds) {
      const usage = keys.get(id) ?? { runs: 0, schedules: 0, examples: [] };
      usage[kind] += 1;
      if (usage.examples.length < maxExamples) usage.examples.push(example);
      keys.set(id, usage);
    }
  };
  try {
    const executions = listOpenRuns();
    const readers = Array.from({ length: historiesAtOnce }, async () => {
      for await (const execution of executions) {
        const keyIds = await readKeyIds(execution);
        if (keyIds === null) continue;
        runs += 1;
        record(keyIds, 'runs', execution.workflowId ?? '');
      }
    });
    await Promise.all(readers);
    for await (const scheduleId of listSchedules()) {
      const schedule = await send(() => service.describeSchedule({ namespace, scheduleId }));
      schedules += 1;
      record(keyIdsIn(schedule), 'schedules', scheduleId);
    }
  } finally {
    await connection.close();
  }
  return { runs, schedules, keys };

  function send<Result>(request: () => Promise<Result>): Promise<Result> {
    return retry(() => withRequestTimeout(connection, request), {
      delays: backoffDelays(retryDelays, maxRetries),
      isRetryable: isUnavailable,
    });
  }

  async function* readPages<Page extends { readonly nextPageToken: Uint8Array }>(
    read: (nextPageToken: Uint8Array) => Promise<Page>,
  ): AsyncGenerator<Page> {
    let nextPageToken: Uint8Array = new Uint8Array();
    do {
      const page = await send(() => read(nextPageToken));
      yield page;
      nextPageToken = page.nextPageToken;
    } while (nextPageToken.length > 0);
  }

  async function* listOpenRuns(): AsyncGenerator<Execution> {
    const request = { namespace, query: 'ExecutionStatus = "Running"', pageSize: runsPerPage };
    for await (const { executions } of readPages((nextPageToken) => service.listWorkflowExecutions({ ...request, nextPageToken })))
      for (const { execution } of executions) if (execution) yield execution;
  }

  async function* listSchedules(): AsyncGenerator<string> {
    const request = { namespace, maximumPageSize: runsPerPage };
    for await (const page of readPages((nextPageToken) => service.listSchedules({ ...request, nextPageToken })))
      for (const { scheduleId } of page.schedules) if (scheduleId) yield scheduleId;
  }

  /** Returns null if the run has been deleted in the meantime. */
  async function readKeyIds(execution: Execution): Promise<ReadonlySet<string> | null> {
    const keyIds = new Set<string>();
    const request = { namespace, execution };
    try {
      for await (const { history } of readPages((nextPageToken) => service.getWorkflowExecutionHistory({ ...request, nextPageToken })))
        for (const id of keyIdsIn(history)) keyIds.add(id);
    } catch (error) {
      if (grpcCodeOf(error) === grpcStatus.notFound) return null;
      throw error;
    }
    return keyIds;
  }
}

function keyIdsIn(response: unknown): Set<string> {
  const keyIds = new Set<string>();
  const pending: unknown[] = [response];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value !== 'object' || value === null || value instanceof Uint8Array) continue;
    const id = isPayload(value) ? encryptionKeyIdOf(value) : null;
    if (id === null) pending.push(...Object.values(value));
    else keyIds.add(id);
  }
  return keyIds;
}

function isPayload(value: object): value is { metadata: Record<string, Uint8Array> } {
  const metadata = 'metadata' in value ? value.metadata : null;
  return typeof metadata === 'object' && metadata !== null && 'encoding' in metadata && metadata.encoding instanceof Uint8Array;
}
