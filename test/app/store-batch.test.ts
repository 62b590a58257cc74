/**
 * Tests the order of the steps that store a batch of calls. It matters what each step can see of the others' writes.
 */
import { createHash, randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { createStoreBatch } from '../../src/app/store-batch.ts';
import type { SettledCall } from '../../src/core/call.ts';
import type { Database, Queries } from '../../src/db/database.ts';
import { lockConversations } from '../../src/db/locks.ts';
import { createKnownPrompts } from '../../src/memory/conversations/known-prompts.ts';
import { createCredentialMasker } from '../../src/memory/text/credential-masker.ts';
import { describeDatabases } from '../db/databases.ts';
import { noon, settledCall, withText } from '../journal/calls.ts';
import { listConversations } from '../memory/calls.ts';
import { newVideo, openVideos } from '../videos/new-video.ts';

const request = JSON.stringify({ model: 'standard', messages: [{ role: 'user', content: 'the tea is oolong, see https://tea.example' }] });
const storeBatch = createStoreBatch(createCredentialMasker(), createKnownPrompts());
const store = (database: Database, calls: readonly SettledCall[]): Promise<void> => database.transaction((tx) => storeBatch(tx, calls));

async function insertProject(database: Database): Promise<string> {
  const id = randomUUID();
  await database.query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [id, id]);
  return id;
}

async function insertCostCounter(database: Database, projectId: string): Promise<void> {
  await database.query(
    `insert into limit_counters (project_id, holder, holder_id, ceiling, window_kind, window_start, settled, leased)
     values ($1::uuid, 'project', '', 'cost', 'total', to_timestamp(0), 0, 0)`,
    [projectId],
  );
}

async function readCost(database: Database, projectId: string): Promise<{ settled: unknown; calls: unknown; texts: unknown }> {
  const [row] = await database.query<{ settled: unknown; calls: unknown; texts: unknown }>(
    `select (select settled from limit_counters where project_id = $1::uuid)::integer as settled,
            (select count(*) from calls where project_id = $1::uuid)::integer as calls,
            (select count(*) from call_texts where project_id = $1::uuid)::integer as texts`,
    [projectId],
  );
  if (!row) throw new Error('a select without a from returns one row');
  return row;
}

/** Records the tables in the order in which statements first touch them. */
function recordTables(tx: Queries): { tx: Queries; tables: Set<string> } {
  const tables = new Set<string>();
  const query: Queries['query'] = (text, values) => {
    for (const [, table = ''] of text.matchAll(/\b(?:into|update|from|join) (erasures|calls|videos|limit_counters|call_texts)\b/g))
      tables.add(table);
    return tx.query(text, values);
  };
  return { tx: { ...tx, query }, tables };
}

describeDatabases('storing a batch of calls', (database) => {
  test('writes erasures, calls, videos, conversations and ceiling counters in a fixed order', async () => {
    const { video, call } = await newVideo(database());
    const { projectId } = video;
    await insertCostCounter(database(), projectId);
    const withSubject = settledCall({
      metadata: { projectId, memory: { mode: 'write', explicitWrite: false, subject: 'ann' } },
      content: withText(request),
    });
    const tables = await database().transaction(async (tx) => {
      const recording = recordTables(tx);
      await storeBatch(recording.tx, [call, withSubject]);
      return [...recording.tables];
    });
    expect(tables).toEqual(['erasures', 'calls', 'videos', 'call_texts', 'limit_counters']);
  });

  test("doesn't hold locks on ceiling counters while it stores conversation texts", async () => {
    if (database().kind === 'embedded') return; // Its single session runs one transaction after the other.
    const projectId = await insertProject(database());
    await insertCostCounter(database(), projectId);
    let locked = 0;
    await database().transaction((tx) =>
      storeBatch(
        {
          async query(text, values) {
            if (text.includes('call_texts')) {
              await database().query('select id from limit_counters where project_id = $1::uuid for update nowait', [projectId]);
              locked += 1;
            }
            return tx.query(text, values);
          },
        },
        [settledCall({ metadata: { projectId }, content: withText(request) })],
      ),
    );
    expect(locked).toBeGreaterThan(0);
    expect(await readCost(database(), projectId)).toMatchObject({ calls: 1, texts: 1 });
  });

  test("doesn't deadlock with a process that locks ceiling counters before conversations", async () => {
    if (database().kind === 'embedded') return;
    const projectId = await insertProject(database());
    await insertCostCounter(database(), projectId);
    const call = settledCall({ metadata: { projectId }, content: withText(request) });
    const writesText = Promise.withResolvers<void>();
    let writes = 0;
    const { stored } = await database().transaction(async (other) => {
      await other.query('select id from limit_counters where project_id = $1::uuid for update', [projectId]);
      const storing = database().transaction((tx) =>
        storeBatch(
          {
            async query(text, values) {
              if (text.includes('into call_texts')) {
                writes += 1;
                // If it still held the counter after the wait, the next batch couldn't get it either.
                if (writes === 2)
                  await database().query('select id from limit_counters where project_id = $1::uuid for update nowait', [projectId]);
                writesText.resolve();
              }
              return tx.query(text, values);
            },
          },
          [call],
        ),
      );
      await Promise.race([writesText.promise, storing]);
      await lockConversations(other, projectId);
      return { stored: storing };
    });
    await stored;
    expect(writes).toBe(2);
    expect(await readCost(database(), projectId)).toEqual({ settled: call.result.costNanos, calls: 1, texts: 1 });
  });

  test('charges the corrected cost if a video fails before its call is stored', async () => {
    const { video, call } = await newVideo(database());
    await insertCostCounter(database(), video.projectId);
    await openVideos(database()).settle(video, { kind: 'failed', failure: 'INTERNAL' }, noon + 1);
    await store(database(), [call]);
    expect(call.result.costNanos).toBeGreaterThan(0);
    expect(await readCost(database(), video.projectId)).toMatchObject({ settled: 0, calls: 1 });
  });

  test('counts a call only once even if it is stored twice', async () => {
    const projectId = await insertProject(database());
    await insertCostCounter(database(), projectId);
    const call = settledCall({ metadata: { projectId }, content: withText(request) });
    await store(database(), [call]);
    await store(database(), [call]);
    expect(await readCost(database(), projectId)).toEqual({ settled: call.result.costNanos, calls: 1, texts: 1 });
    expect(await listConversations(database(), projectId)).toMatchObject([{ calls: 1 }]);
  });

  test('stores the cost but not the text of a call if its end user has been erased', async () => {
    const projectId = await insertProject(database());
    await insertCostCounter(database(), projectId);
    await database().query(
      `insert into erasures (id, project_id, subject_sha256, erased_at, asked_by, deleted)
       values ($1::uuid, $2::uuid, $3::bytea, to_timestamp($4::float8 / 1000), 'key:test', '{}')`,
      [randomUUID(), projectId, createHash('sha256').update('ann').digest(), noon + 1],
    );
    const call = settledCall({
      metadata: { projectId, memory: { mode: 'write', explicitWrite: false, subject: 'ann' } },
      content: withText(request),
    });
    await store(database(), [call]);
    expect(await readCost(database(), projectId)).toEqual({ settled: call.result.costNanos, calls: 1, texts: 0 });
  });

  test('rolls back the whole batch if masking credentials fails', async () => {
    const projectId = await insertProject(database());
    await insertCostCounter(database(), projectId);
    const failing = createStoreBatch(
      createCredentialMasker(() => {
        throw new Error('masking failed');
      }),
      createKnownPrompts(),
    );
    // We only search texts that look as if they contain a credential.
    const call = settledCall({ metadata: { projectId }, content: withText(request, 'AKIAIOSFODNN7EXAMPLE') });
    await expect(database().transaction((tx) => failing(tx, [call]))).rejects.toThrow('masking failed');
    expect(await readCost(database(), projectId)).toEqual({ settled: 0, calls: 0, texts: 0 });
  });
});
