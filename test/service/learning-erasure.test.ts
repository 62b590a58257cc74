/** Erases a subject during one of its batches: the batch stores nothing, and Temporal never received its data. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { createTemporal } from '../../src/jobs/client/temporal.ts';
import { findTablesHolding } from '../memory/find-text.ts';
import { eventually, jsonOf, type TestGateway, withGateway } from '../support/gateway.ts';
import { rawHistory } from '../support/histories.ts';
import { createMemoryVendor } from '../support/memory-vendor.ts';
import { createTestLog, readServerRecord } from '../support/temporal.ts';

const limitMs = 250_000;
const vendor = await createMemoryVendor();
afterAll(() => vendor.close());

/** Marker in all data of the subject; made of id characters, so that payload checks let it pass. */
const planted = 'quokka';
const subject = `patient-${planted}-4711`;
const statement = `I keep a ${planted} at home.`;

interface Batch {
  readonly id: string;
  readonly kind: string;
  readonly state: string;
  readonly error: { readonly code: string; readonly message: string } | null;
}

/** Sends calls that contain the subject in every field a caller can set, then a call of another user. Returns the conversation id. */
async function tell({ call, database }: TestGateway): Promise<string> {
  const headers = {
    'x-gateway-memory-subject': subject,
    'x-gateway-source': `app-${planted}`,
    'x-gateway-task-id': `task-${planted}`,
    'x-gateway-turn-id': planted,
    'x-gateway-agent-id': planted,
    'x-gateway-trigger-kind': planted,
    'x-gateway-trigger-detail': statement,
  };
  const ask = async (content: string, more: Record<string, string>): Promise<void> => {
    const response = await call('/v1/chat/completions', { model: 'standard', user: planted, messages: [{ role: 'user', content }] }, more);
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  };
  await ask(statement, headers);
  await ask('I live in Oslo.', { 'x-gateway-memory-subject': 'ann' });
  return eventually(async () => {
    const [row] = await database.query<{ id: string }>(`select id from conversations where subject = $1::text`, [subject]);
    if (!row) throw new Error('the call is not stored yet');
    return row.id;
  }, limitMs);
}

/** Everything Temporal stores about all runs: histories, memos, search attributes, ids, and its files on disk. */
async function readTemporal(dataDir: string): Promise<{ readonly types: ReadonlySet<string>; readonly text: string }> {
  const temporal = createTemporal({ ...(await readServerRecord(dataDir)), logger: createTestLog().logger });
  const types = new Set<string>();
  const texts: string[] = [];
  try {
    for await (const { workflowId, runId, type } of temporal.client.workflow.list()) {
      types.add(type);
      const handle = temporal.client.workflow.getHandle(workflowId, runId);
      texts.push(workflowId, rawHistory((await handle.describe()).raw), rawHistory(await handle.fetchHistory()));
    }
  } finally {
    await temporal.close();
  }
  const files = (await readdir(dataDir)).filter((name) => name.startsWith('temporal.db'));
  expect(files).toContain('temporal.db');
  for (const name of files) texts.push(await readFile(join(dataDir, name), 'latin1'));
  return { types, text: texts.join('\n').toLowerCase() };
}

test('200, then a count of zero, with vendors that echo their requests and a remember during the batch', async () => {
  await withGateway({ temporal: true, yaml: () => vendor.yaml }, async (gateway) => {
    const { app, admin, call, database, project, url, key, logs, dataDir } = gateway;
    app.startDurable();
    await admin('PUT', `/provision/teams/${project}/memory`, { batch_of: 4 });
    const batchesOf = async (): Promise<readonly Batch[]> =>
      (await jsonOf<{ data: Batch[] }>(admin('GET', `/provision/teams/${project}/batches`))).data;

    const failing = vendor.fail('memories', planted, (text) => ({ status: 500, message: `cannot read ${text}` }));
    const conversationId = await tell(gateway);
    await eventually(async () => expect(await batchesOf()).toMatchObject([{ kind: 'normal', messages: 4 }]), limitMs);
    const remembered = await call(`/v1/memory/episodes/${conversationId}/remember`, { focus: `what of the ${planted}?` });
    expect([remembered.status, await remembered.json()]).toEqual([202, expect.objectContaining({ episode_id: conversationId })]);
    const errorOf = async (code: string): Promise<void> => {
      const errors = (await batchesOf()).map(({ error }) => `${error?.code} ${error?.message}`).join('\n');
      expect(errors).toContain(code);
    };
    await eventually(() => errorOf('upstream_failed'), limitMs);
    failing.end();
    const refusing = vendor.fail('memories', planted, (text) => ({ status: 400, message: `will not read ${text}` }));
    await eventually(() => errorOf('upstream_refused'), limitMs);
    expect((await batchesOf()).map(({ error }) => error?.message ?? '').join('\n')).toContain(planted);
    const held = vendor.hold('memories', planted);
    refusing.end();
    const before = vendor.count('memories', planted);
    await eventually(async () => expect(vendor.count('memories', planted)).toBeGreaterThan(before), limitMs);

    const address = `${url}/v1/memory/subjects/${encodeURIComponent(subject)}`;
    const erased = await fetch(address, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } });
    expect(erased.status).toBe(200);
    const { id } = (await erased.json()) as { id: string };
    held.release();
    await eventually(async () => {
      const report = await jsonOf(admin('GET', `/provision/teams/${project}/erasures/${id}`));
      expect(report).toMatchObject({ workflows: { state: 'done', text_in_history: false }, deleted: { episodes: 1, calls: 1 } });
      // Batches without other groups are finished; other users are learned.
      const batches = await batchesOf();
      expect(batches.map(({ state }) => state)).toEqual(batches.map(() => 'done'));
    }, limitMs);
    const learned = `select subject, text from memory_items where state = 'live'`;
    await eventually(async () => expect(await database.query(learned)).toEqual([{ subject: 'ann', text: 'I live in Oslo.' }]), limitMs);

    // The source name stays: the cost is charged to it.
    await database.query(`update calls set source = 'app' where source = $1::text`, [`app-${planted}`]);
    for (const table of ['usage_increments', 'usage_rollups', 'usage_cells'])
      await database.query(`update ${table} set name = 'app' where scope = 'source' and name = $1::text`, [`app-${planted}`]);
    expect(await findTablesHolding(database, planted)).toEqual([]);
    const { types, text } = await readTemporal(dataDir);
    expect([...types].toSorted()).toEqual(expect.arrayContaining(['learningBatch', 'projectLearning', 'subjectErasure']));
    expect(text).toContain(id);
    expect(text).not.toContain(planted);
    const lines = logs.join('\n').toLowerCase().replaceAll(`app-${planted}`, '');
    expect(lines).not.toContain(planted);
  });
}, 600_000);
