/**
 * Runs real Temporal dev servers for tests, on free ports and with their state in temporary folders.
 *
 * We look for the program like `npm start` does, so the first run on a new machine may spend minutes building it.
 * global-setup.ts calls `ensureTemporal`, so that no test has to wait for this.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { type ScheduleDescription, type ScheduleHandle, ServiceError, type WorkflowHandle } from '@temporalio/client';
import type { Logger } from '../../src/observability/logger.ts';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import { servesNamespace } from '../../src/temporal/connection/temporal-connection.ts';
import { type DevServer, startDevServer } from '../../src/temporal/dev-server/dev-server.ts';
import { type DevServerRecord, readRecord } from '../../src/temporal/dev-server/dev-server-files.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import { ensureTemporal } from './temporal-program.ts';
import { until } from './until.ts';
import { prepareTestBundle } from './workflow-bundle.ts';

export { until };

export interface LogLine {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Creates a logger that keeps its lines. */
export function createTestLog(): { logger: Logger; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const keep =
    (level: keyof Logger) =>
    (fields: Readonly<Record<string, unknown>>, message: string): void => {
      lines.push({ level, message, fields });
    };
  return { logger: { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') }, lines };
}

/**
 * Returns all warnings and errors, except those of Temporal's SDK. It may complain about a lost connection or a busy
 * machine at any time.
 */
export function warningsIn(lines: readonly LogLine[]): LogLine[] {
  return lines.filter(({ level, message }) => (level === 'warn' || level === 'error') && !message.startsWith('temporal: '));
}

/** Returns the dev server's record in a data directory. */
export async function readServerRecord(dataDir: string): Promise<DevServerRecord> {
  const record = await readRecord(dataDir);
  if (!record) throw new Error('there is no dev server in this data directory');
  return record;
}

export interface TestTemporal {
  readonly server: DevServer;
  readonly temporal: Temporal;
  readonly dataDir: string;
  readonly lines: LogLine[];
  /** Runs a worker with these activities. It's stopped together with the server, if not earlier. */
  work(activities: object): RunningWorker;
  stop(): Promise<void>;
}

/** Starts a dev server with a client. The caller has to stop it. */
async function startTestTemporal(): Promise<TestTemporal> {
  const { logger, lines } = createTestLog();
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-temporal-'));
  const server = await startDevServer({ binary: await ensureTemporal(), dataDir, logger, servesNamespace });
  const temporal = createTemporal({ address: server.address, namespace: server.namespace, logger });
  const workers: RunningWorker[] = [];
  return {
    server,
    temporal,
    dataDir,
    lines,
    work(activities) {
      const bundle = (signal: AbortSignal): Promise<string> => prepareTestBundle(signal);
      const worker = temporal.startWorker({ activities, bundle, graceMs: 1_000 });
      workers.push(worker);
      return worker;
    },
    async stop() {
      await Promise.all(workers.map((worker) => worker.stop()));
      await temporal.close();
      await server.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** Starts one dev server for all tests of a file. Call this at the top of the file and use the result inside tests. */
export function sharedTemporal(): () => TestTemporal {
  let shared: TestTemporal | undefined;
  beforeAll(async () => {
    shared = await startTestTemporal();
  });
  afterAll(async () => {
    await shared?.stop();
  });
  return () => {
    if (!shared) throw new Error('the shared Temporal server is there only while tests run');
    return shared;
  };
}

/** Writes the schedules. If the server is too busy to respond in time, we try again, and so does the dispatcher. */
export async function putSchedules(schedules: { put(): Promise<boolean> }): Promise<void> {
  await until('the schedules are written', () => schedules.put().catch(() => false));
}

export function describeSchedule(handle: ScheduleHandle): Promise<ScheduleDescription> {
  return untilAnswered('the schedule is described', () => handle.describe());
}

/** Returns the current details of a run, as shown in Temporal's UI. */
export async function detailsOf(handle: Pick<WorkflowHandle, 'query'>): Promise<string> {
  const query = () => handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata');
  const { currentDetails } = await untilAnswered('the run answers a query', query);
  return currentDetails ?? '';
}

/** A busy server may fail to pass a query to a worker in time, so we try again. */
async function untilAnswered<Answer>(sentence: string, ask: () => Promise<Answer>): Promise<Answer> {
  const answers: Answer[] = [];
  await until(sentence, async () => {
    await ask().then(
      (answer) => answers.push(answer),
      (error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
      },
    );
    return answers.length > 0;
  });
  return answers[0] as Answer;
}
