/**
 * A worker process that kills itself at named points of activities, for `activity-kill.test.ts`. The points are `before
 * <table>`, when the activity is about to commit its write to that table, and `after`, when the activity is done but
 * Temporal doesn't have its result yet. An activity that reaches its point waits there, and when the last one has
 * reached its point, the process kills itself. This program wraps the database and the activities, so the gateway
 * itself doesn't contain code to kill it.
 *
 * Pass the crash points as JSON in an argument. Without this argument, the worker keeps running and logs every point
 * that it passes.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createApp } from '../../src/app/app.ts';
import { loadConfig, readConfigSource } from '../../src/config/load.ts';
import type { Database, Queries } from '../../src/db/database.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createLogger } from '../../src/observability/logger.ts';
import type { Activities } from '../../workflows/contract.ts';

/** A point at which a worker crashes. */
export interface CrashPoint {
  readonly activity: keyof Activities;
  readonly point: string;
  /** Only crash during the work of this project. If it's null, any project will do. */
  readonly projectId: string | null;
}

interface Run {
  readonly activity: string;
  readonly projectId: string | null;
}

const { env, argv } = process;
const crashes = new Set(JSON.parse(argv[2] ?? '[]') as readonly CrashPoint[]);
const awaited = new Set(crashes);
const logger = createLogger({ level: 'info' });
/** Writes log lines for the test. */
const report: (fields: Readonly<Record<string, unknown>>, message: string) => void = logger.info;
const config = loadConfig(readConfigSource(env, 'worker'));
const database = openServerDatabase({ connectionString: config.server.databaseUrl ?? '', maxConnections: 20 });
const running = new AsyncLocalStorage<Run>();

async function pass(point: string): Promise<void> {
  const run = running.getStore();
  if (!run) return;
  for (const crash of crashes) {
    if (crash.activity !== run.activity || crash.point !== point || (crash.projectId ?? run.projectId) !== run.projectId) continue;
    awaited.delete(crash);
    report({ ...crash, awaited: awaited.size }, 'at its crash point');
    if (awaited.size === 0) process.kill(process.pid, 'SIGKILL');
    return new Promise(() => undefined);
  }
  report({ activity: run.activity, point }, 'passed');
}

const tablesOf = (text: string): string[] =>
  [...text.matchAll(/\b(?:insert into|update|delete from) (\w+)/g)].map(([, table = '']) => table);

const crashingDatabase: Database = {
  ...database,
  async query(text, values) {
    for (const table of tablesOf(text)) await pass(`before ${table}`);
    return database.query(text, values);
  },
  transaction: (work) =>
    database.transaction(async (tx) => {
      const tables = new Set<string>();
      const recording: Queries = {
        query(text, values) {
          for (const table of tablesOf(text)) tables.add(table);
          return tx.query(text, values);
        },
      };
      const result = await work(recording);
      for (const table of tables) await pass(`before ${table}`);
      return result;
    }),
};

async function projectOf(input: object): Promise<string | null> {
  const id = Object.values(input).find((value) => typeof value === 'string' && value.length === 36);
  if (id === undefined) return null; // That's the cleanup, which isn't about a single project.
  const [row] = await database.query<{ id: string }>(
    `select id from projects where id = $1::uuid
     union all select project_id from conversations where id = $1::uuid
     union all select project_id from memory_batches where id = $1::uuid
     union all select project_id from videos where call_id = $1::uuid
     union all select project_id from erasures where id = $1::uuid`,
    [id],
  );
  return row?.id ?? null;
}

function aroundActivities(activities: Activities): Activities {
  report({ activities: Object.keys(activities) }, 'activities');
  const around = Object.entries(activities).map(([activity, work]: [string, (input: never) => Promise<unknown>]) => [
    activity,
    async (input: never) => {
      const projectId = await projectOf(input);
      return running.run({ activity, projectId }, async () => {
        const result = await work(input);
        await pass('after');
        return result;
      });
    },
  ]);
  return Object.fromEntries(around) as Activities;
}

const app = await createApp({
  role: 'worker',
  config,
  database: crashingDatabase,
  logger,
  dataDir: config.server.dataDir,
  environment: env,
  interceptActivities: aroundActivities,
});
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)));
const url = await app.listen('127.0.0.1', 0);
app.startDurable();
logger.info({ url }, 'listening');
