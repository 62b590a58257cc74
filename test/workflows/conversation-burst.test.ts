/**
 * Runs a burst of conversations with one call each while another project has a learning batch, up to a limit (`npm run
 * benchmark-idle` measures 6,000). We count what Temporal has to do, because this doesn't depend on the speed of the
 * machine.
 */
import { randomUUID } from 'node:crypto';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createConversationActivities } from '../../activities/create-activities.ts';
import { systemClock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { enqueue } from '../../src/db/outbox.ts';
import { createCloseIdle } from '../../src/memory/conversations/close-idle.ts';
import { createTemporal } from '../../src/temporal/client/temporal.ts';
import { type Durable, startDurable } from '../../src/temporal/durable.ts';
import type { Activities } from '../../workflows/contract.ts';
import { chatBody, createProject, record, settledCall } from '../memory/calls.ts';
import { type AnyDatabase, openAnyDatabase } from '../support/any-database.ts';
import { createTestLog, sharedTemporal, until } from '../support/temporal.ts';
import { temporalEnvironment } from '../support/temporal-program.ts';
import { prepareTestBundle } from '../support/workflow-bundle.ts';

const conversations = 300;
const perDrain = 50;

const shared = sharedTemporal();
const { logger } = createTestLog();
let opened: AnyDatabase;
let database: Database;
let dataDir: string;
let durable: Durable | null = null;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'gateway-burst-'));
  const bundle = await prepareTestBundle();
  await copyFile(bundle, join(dataDir, basename(bundle)));
  opened = await openAnyDatabase();
  database = opened.database;
});
afterAll(async () => {
  await durable?.stop();
  await opened.close();
  await rm(dataDir, { recursive: true, force: true });
});

test('closes all conversations that become idle at the same time in a single run', async () => {
  const [busy, quiet] = [await createProject(database), await createProject(database)];
  for (let from = 0; from < conversations; from += perDrain) {
    const ask = (_: unknown, index: number) =>
      settledCall({ projectId: busy, at: from + index, body: chatBody(`u question ${from + index}`), answer: 'answer' });
    await record(database, Array.from({ length: perDrain }, ask));
  }
  await database.query(`update conversations set last_turn_at = now() - interval '1 hour'`);
  const batchId = randomUUID();
  const batchRun = `learning/${quiet}/batch/${batchId}`;
  const batch = { workflow: 'learningBatch', workflowId: batchRun, input: { batch_id: batchId }, projectId: quiet };
  await database.transaction((tx) => enqueue(tx, [batch]));

  const temporal = { mode: 'external', address: shared().server.address, namespace: 'burst', createNamespace: true } as const;
  const batchActivities: Pick<Activities, 'openBatch' | 'learnGroup' | 'consolidateGroup' | 'finishBatch'> = {
    openBatch: async () => ({ groups: [{ position: 0, waitMs: 0, attempts: 0 }], total: 1 }),
    learnGroup: async () => ({ kind: 'settled', outcome: 'learned', code: null, written: 1 }),
    consolidateGroup: async () => ({ kind: 'settled', outcome: 'done', code: null, written: 1 }),
    finishBatch: async () => ({ finished: true, batch: null, runId: '' }),
  };
  const idle = { idleMs: () => 1_000, closeIdle: createCloseIdle({ database }), closeConversation: undefined as never };
  durable = startDurable({
    temporal,
    role: 'worker',
    graceMs: 1_000,
    environment: temporalEnvironment(),
    dataDir,
    database,
    activities: { ...createConversationActivities(idle), ...batchActivities, embedPassages: async () => ({ kind: 'done', passages: 0 }) },
    batches: { filterOpen: async () => [], close: async () => undefined, isOpen: async () => false },
    clock: systemClock,
    reenqueueUnfinished: async () => undefined,
    logger,
  });

  const { client, close } = createTemporal({ ...temporal, logger });
  try {
    const handle = client.workflow.getHandle(batchRun);
    await until('the batch has ended', async () =>
      handle.describe().then(
        ({ status }) => status.name === 'COMPLETED',
        () => false,
      ),
    );
    await until('the idle timer has ended', async () => {
      const [timer] = await database.query<{ active: boolean }>('select active from idle_timers where project_id = $1::uuid', [busy]);
      return timer?.active === false;
    });
    const [read] = await database.query(
      `select count(*)::integer as count, count(distinct title)::integer as titles from conversations where state = 'read'`,
    );
    expect(read).toEqual({ count: conversations, titles: conversations });

    const runs = (): Promise<{ workflowId: string }[]> =>
      Array.fromAsync(client.workflow.list({ query: `WorkflowType != "learningBatch"` }));
    await until('the run is listed', async () => (await runs()).some(({ workflowId }) => workflowId.startsWith('conversations/')));
    const ids = (await runs()).map(({ workflowId }) => workflowId).filter((id) => id.startsWith('conversation'));
    expect(ids).toEqual([`conversations/${busy}/1`]);
    const { events } = await client.workflow.getHandle(`conversations/${busy}/1`).fetchHistory();
    // Each check reads at least 100 conversations and takes six events. A failed workflow task would take a few more.
    expect(events?.length).toBeLessThanOrEqual(6 * (conversations / 100 + 2));
  } finally {
    await close();
  }
});
