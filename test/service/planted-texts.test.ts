/**
 * Plants texts and secrets wherever a caller, a vendor or an operator can write something, in a real process with
 * Temporal. After that, it searches everything that others can read, i.e. logs, metrics, traces, errors and Temporal.
 * One subject is erased while one of its batches is running, and nothing about this subject can be left in the
 * database.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/common';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createTemporal } from '../../src/temporal/client/temporal.ts';
import { createEncryptionCodec } from '../../src/temporal/payloads/encryption.ts';
import { findTablesHolding } from '../memory/find-text.ts';
import { copyTestBundle, eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess } from '../support/gateway-process.ts';
import { rawHistory } from '../support/histories.ts';
import { createMemoryVendor } from '../support/memory-vendor.ts';
import { type CollectedSpan, createOtlpCollector } from '../support/otlp-collector.ts';
import { findPlanted, plant } from '../support/planted.ts';
import { createTestDatabase, describePostgres } from '../support/postgres.ts';
import { createScriptedVendor } from '../support/scripted-vendor/server.ts';
import { createTestLog, readServerRecord } from '../support/temporal.ts';
import { unusedUrl } from '../support/unused-port.ts';

const processes = createProcesses();
afterAll(processes.stopAll);

const payloadKey = randomBytes(32);
/** No output may contain these. */
const secrets = {
  adminToken: plant('admin'),
  vendorKey: plant('vendorkey'),
  maskedKey: plant('mask'),
  collectorToken: plant('collector'),
  wrongKey: plant('wrongkey'),
  payloadKey: payloadKey.toString('base64'),
};
/** No output may contain these either, except the response to the caller who wrote them. */
const texts = {
  statement: plant('statement'),
  subject: plant('subject'),
  application: plant('application'),
  detail: plant('detail'),
  user: plant('user'),
  system: plant('system'),
  prompt: plant('prompt'),
  toolArguments: plant('arguments'),
  toolName: plant('tool'),
  memory: plant('memory'),
  query: plant('query'),
  image: plant('image'),
  speech: plant('speech'),
  vendorError: plant('vendorerror'),
  invalid: plant('invalid'),
  path: plant('path'),
};
const [traceId, callerSpan] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
const statement = `I keep a ${texts.statement} at home.`;

describePostgres('texts of callers that have to stay private', () => {
  test('keeps prompts out of logs, metrics, spans, errors and Temporal histories', async () => {
    const [vendor, demo, collector] = [
      await createMemoryVendor(),
      await createScriptedVendor({ port: 0, paceMs: 0 }),
      await createOtlpCollector(),
    ];
    const stored = await createTestDatabase();
    const database = openServerDatabase({ connectionString: stored.url, connectTimeoutMs: 30_000 });
    const home = await processes.home('empty');
    const dataDir = join(home, 'data');
    await mkdir(dataDir);
    await copyTestBundle(dataDir);
    const more = `demo: { base_url: '${demo.url}/v1', api_key: sk-proj-${secrets.vendorKey}, dialect: chat }, dead: { base_url: '${await unusedUrl()}/v1', api_key: sk-proj-${secrets.vendorKey}, dialect: chat },`;
    const yaml = vendor.yaml.replace('providers: {', `providers: { ${more}`).replace('key-one', `sk-proj-${secrets.vendorKey}`);
    await writeFile(join(home, 'gateway.yaml'), `${yaml}\ndefaults: { image_provider: demo, speech_provider: demo }\n`);
    const env = {
      DATABASE_URL: stored.url,
      GATEWAY_TEMPORAL: 'on',
      GATEWAY_ADMIN_TOKEN: secrets.adminToken,
      TEMPORAL_PAYLOAD_KEY: secrets.payloadKey,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: `x-token=${secrets.collectorToken}`,
    };
    const gateway = await processes.start('start', { home, env });
    const project = 'default';
    const { admin, errors, call, say, key } = await openProject(gateway, project);
    const marks = { ...secrets, virtualKey: key.split('-').at(-1) ?? '', ...texts };
    try {
      const put = async (path: string, body: object): Promise<void> => expect((await admin('PUT', path, body)).status).toBe(200);
      const batchesOf = async (): Promise<readonly Batch[]> =>
        (await jsonOf<{ data: Batch[] }>(admin('GET', `/provision/teams/${project}/batches`))).data;

      // Calls that fail, in every way that quotes something.
      const masked = `Incorrect API key provided: sk-proj-********${secrets.maskedKey}.`;
      const failing = vendor.fail('chat', texts.prompt, () => ({ status: 401, message: `${masked} ${texts.vendorError}` }));
      await say({ model: 'one/m', messages: [{ role: 'user', content: texts.prompt }] }, 502);
      failing.end();
      const refusing = vendor.fail('chat', texts.prompt, (text) => ({ status: 400, message: `${masked} ${texts.vendorError} ${text}` }));
      await say({ model: 'one/m', messages: [{ role: 'user', content: texts.prompt }] }, 400);
      refusing.end();
      await say({ model: 'demo/fail-500', messages: [{ role: 'user', content: texts.prompt }] }, 502);
      await say({ model: texts.invalid, messages: [{ role: 'user', content: texts.prompt }] }, 400);
      await say(`{"model":"one/m","messages":"${texts.invalid}`, 400);
      await say({ model: 'one/m', messages: [] }, 401, { authorization: `Bearer sk-gw-${secrets.wrongKey}` });
      await say({ model: 'one/m', messages: [] }, 400, { 'x-gateway-memory-subject': `${texts.invalid}\xff` });
      errors.push(
        await (await fetch(`${gateway.url}/provision/${texts.path}?q=${texts.query}`, { headers: { authorization: 'Bearer x' } })).text(),
      );

      // Calls that succeed, with failover, tools, streams, media and memory.
      await put(`/provision/teams/${project}`, { tiers: { failover: ['dead/m', 'demo/fail-once-500', 'demo/echo'] } });
      const tool = {
        type: 'function',
        function: { name: texts.toolName, description: texts.toolArguments, parameters: { type: 'object' } },
      };
      const messages = [
        { role: 'system', content: texts.system },
        { role: 'user', content: texts.prompt },
        {
          role: 'assistant',
          tool_calls: [{ id: 'c', type: 'function', function: { name: texts.toolName, arguments: `{"a":"${texts.toolArguments}"}` } }],
        },
        { role: 'tool', tool_call_id: 'c', content: texts.toolArguments },
      ];
      await say({ model: 'failover', messages, tools: [tool] }, 200);
      await say({ model: 'demo/echo', messages, stream: true }, 200);
      await say({ model: 'demo/error-after-1', messages, stream: true }, 200);
      await say({ model: 'demo/break-after-1', messages, stream: true }, 200);
      await call('/v1/images/generations', { model: 'demo/image', prompt: texts.image });
      await call('/v1/audio/speech', { model: 'demo/voice', input: texts.speech, voice: 'alloy' });
      await call('/v1/memory/items', { text: `They like ${texts.memory}.` });
      await call('/v1/memory/search', { query: texts.query });
      await say({ model: 'one/m', messages: [{ role: 'user', content: texts.memory }] }, 200, { 'x-gateway-memory': 'recall' });

      // A traced call whose conversation is learned in a batch that fails. Its subject is erased during that batch.
      await put(`/provision/teams/${project}/memory`, { batch_of: 4 });
      const upset = vendor.fail('memories', texts.statement, (text) => ({ status: 500, message: `cannot read ${text}` }));
      const { callId, conversationId } = await tell();
      await eventually(async () => expect(await batchesOf()).toMatchObject([{ kind: 'normal' }]));
      const remembered = await call(`/v1/memory/episodes/${conversationId}/remember`, { focus: `what of the ${texts.statement}?` });
      expect([remembered.status, await remembered.json()]).toEqual([202, expect.objectContaining({ episode_id: conversationId })]);
      const errorOf = async (code: string): Promise<void> => {
        const found = (await batchesOf()).map(({ error }) => `${error?.code} ${error?.message}`).join('\n');
        expect(found).toContain(code);
      };
      await eventually(() => errorOf('upstream_failed'));
      upset.end();
      const reluctant = vendor.fail('memories', texts.statement, (text) => ({ status: 400, message: `will not read ${text}` }));
      await eventually(() => errorOf('upstream_refused'));
      expect((await batchesOf()).map(({ error }) => error?.message ?? '').join('\n')).toContain(texts.statement);
      const held = vendor.hold('memories', texts.statement);
      reluctant.end();
      const before = vendor.count('memories', texts.statement);
      await eventually(async () => expect(vendor.count('memories', texts.statement)).toBeGreaterThan(before));

      const address = `${gateway.url}/v1/memory/subjects/${encodeURIComponent(`patient-${texts.subject}-4711`)}`;
      const erased = await fetch(address, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } });
      expect(erased.status).toBe(200);
      const { id } = (await erased.json()) as { id: string };
      held.release();
      await eventually(async () => {
        const report = await jsonOf(admin('GET', `/provision/teams/${project}/erasures/${id}`));
        expect(report).toMatchObject({ workflows: { state: 'done', text_in_history: false }, deleted: { episodes: 1, calls: 1 } });
        const batches = await batchesOf();
        expect(batches.map(({ state }) => state)).toEqual(batches.map(() => 'done'));
      });
      const learned = `select text from memory_items where state = 'live' and subject = 'ann'`;
      await eventually(async () => expect(await database.query(learned)).toEqual([{ text: 'I live in Oslo.' }]));

      // The name of the application stays, because the cost is charged to it.
      await database.query(`update calls set source = 'app' where source = $1::text`, [`app-${texts.application}`]);
      for (const table of ['usage_increments', 'usage_rollups', 'usage_cells'])
        await database.query(`update ${table} set name = 'app' where scope = 'source' and name = $1::text`, [`app-${texts.application}`]);
      for (const mark of [texts.statement, texts.subject, texts.application, texts.detail, texts.user])
        expect(await findTablesHolding(database, mark)).toEqual([]);

      const { types, text: temporal } = await readTemporal(dataDir);
      const metrics = await fetch(`${gateway.url}/metrics`, { headers: { authorization: `Bearer ${secrets.adminToken}` } });
      const outputs = { errors: errors.join('\n'), metrics: await metrics.text(), temporal };
      expect(await gateway.end('SIGTERM')).toBe(0);
      const spans = collector.spans.map((span) => JSON.stringify(span, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
      const bodies = collector.received().replaceAll(secrets.collectorToken, '');
      const logs = `${gateway.stdout()}\n${gateway.stderr()}`;
      const found = { ...outputs, logs, traces: `${spans.join('\n')}\n${bodies}` };

      const traced = collector.spans.filter((span) => span.traceId === traceId);
      const [request] = traced.filter(({ parentId }) => parentId === callerSpan);
      const [batch] = collector.spans.filter(({ name, links }) => name === 'journal drain' && links.includes(request?.spanId ?? ''));
      const parentOf = ({ parentId }: CollectedSpan): string => traced.find(({ spanId }) => spanId === parentId)?.name ?? '';
      expect(request?.name).toBe('POST /v1/chat/completions');
      expect(traced.map((span) => `${span.name} < ${parentOf(span)}`)).toEqual(
        expect.arrayContaining([
          'journal open < POST /v1/chat/completions',
          'journal settle < POST /v1/chat/completions',
          'call < POST /v1/chat/completions',
          'chat m < call',
          'store call < POST /v1/chat/completions',
        ]),
      );
      expect(traced.find(({ name }) => name === 'store call')?.links).toEqual([batch?.spanId]);
      expect(gateway.logs()).toContainEqual(expect.objectContaining({ msg: 'call', call: callId, trace: traceId }));

      // We search for something that all of them contain, to show that the search works.
      expect(findPlanted(Buffer.from(`{"a":"${texts.prompt} ü"}`).toString('base64'), marks)).toEqual(['prompt']);
      expect([...types].toSorted()).toEqual(expect.arrayContaining(['learningBatch', 'projectLearning', 'subjectErasure']));
      expect(findPlanted(found.temporal, { id })).toEqual(['id']);
      expect(found.metrics).toContain('gateway_calls_total{');
      expect(findPlanted(found.logs, { callId })).toEqual(['callId']);
      expect(findPlanted(found.traces, { callId })).toEqual(['callId']);
      expect(findPlanted(found.errors, texts)).toEqual(['prompt', 'vendorError', 'invalid']);
      expect(findPlanted(collector.received(), secrets)).toEqual(['collectorToken']);

      const none = { errors: [], metrics: [], temporal: [], logs: [], traces: [] };
      expect(mapValues(found, (output) => findPlanted(output, { ...secrets, virtualKey: marks.virtualKey }))).toEqual(none);
      expect(mapValues({ ...found, errors: '' }, (output) => findPlanted(output, texts))).toEqual(none);
    } finally {
      await database.close();
      await stored.drop();
      await demo.close();
      vendor.close();
      await collector.close();
    }

    /** Sends calls that contain the subject in every field a caller can set, then a call of another user. */
    async function tell(): Promise<{ callId: string; conversationId: string }> {
      const headers = {
        traceparent: `00-${traceId}-${callerSpan}-01`,
        'x-gateway-memory-subject': `patient-${texts.subject}-4711`,
        'x-gateway-source': `app-${texts.application}`,
        'x-gateway-task-id': `task-${texts.detail}`,
        'x-gateway-turn-id': texts.detail,
        'x-gateway-agent-id': texts.detail,
        'x-gateway-trigger-kind': texts.detail,
        'x-gateway-trigger-detail': texts.detail,
      };
      const ask = (content: string, given: Record<string, string>): Promise<Response> =>
        say({ model: 'standard', user: texts.user, messages: [{ role: 'user', content }] }, 200, given);
      const response = await ask(statement, headers);
      await ask('I live in Oslo.', { 'x-gateway-memory-subject': 'ann' });
      const conversationId = await eventually(async () => {
        const [row] = await database.query<{ id: string }>(`select id from conversations where subject = $1::text`, [
          headers['x-gateway-memory-subject'],
        ]);
        if (!row) throw new Error('the call is not stored yet');
        return row.id;
      });
      return { callId: response.headers.get('x-gateway-call-id') ?? '', conversationId };
    }
  });
});

interface Batch {
  readonly id: string;
  readonly kind: string;
  readonly state: string;
  readonly error: { readonly code: string; readonly message: string } | null;
}

async function openProject(gateway: GatewayProcess, project: string) {
  const errors: string[] = [];
  const admin = (method: string, path: string, body?: unknown): Promise<Response> =>
    fetch(gateway.url + path, {
      method,
      headers: { authorization: `Bearer ${secrets.adminToken}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  const { key } = await jsonOf<{ key: string }>(admin('POST', `/provision/teams/${project}/keys`, { name: 'planted' }));
  const call = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  /** Keeps everything except the text of a response, i.e. errors, including those in streams. */
  async function say(body: unknown, status: number, headers: Record<string, string> = {}): Promise<Response> {
    const response = await call('/v1/chat/completions', body, headers);
    const text = await response.text().catch(() => '');
    expect([response.status, text]).toEqual([status, expect.any(String)]);
    if (status !== 200) errors.push(text, JSON.stringify([...response.headers]));
    return response;
  }
  return { admin, errors, call, say, key };
}

/** Temporal's list may still contain a run that an erasure has deleted. */
function noneIfDeleted(error: unknown): [] {
  if (error instanceof WorkflowNotFoundError) return [];
  throw error;
}

/**
 * Reads everything that Temporal stores about all runs: histories with decrypted payloads, memos, search attributes,
 * ids, and its files.
 */
async function readTemporal(dataDir: string): Promise<{ readonly types: ReadonlySet<string>; readonly text: string }> {
  const temporal = createTemporal({ ...(await readServerRecord(dataDir)), logger: createTestLog().logger, payloadKeys: [payloadKey] });
  const types = new Set<string>();
  const found: string[] = [];
  try {
    for await (const { workflowId, runId, type } of temporal.client.workflow.list()) {
      types.add(type);
      const handle = temporal.client.workflow.getHandle(workflowId, runId);
      for (const stored of await Promise.all([handle.describe().then(({ raw }) => raw), handle.fetchHistory()]).catch(noneIfDeleted))
        found.push(workflowId, rawHistory(stored), ...(await decryptPayloads(stored)));
    }
  } finally {
    await temporal.close();
  }
  const files = (await readdir(dataDir)).filter((name) => name.startsWith('temporal'));
  expect(files).toContain('temporal.db');
  for (const name of files) found.push(await readFile(join(dataDir, name), 'latin1'));
  return { types, text: found.join('\n') };
}

/** Returns all encrypted payloads within a Temporal message as plain text. */
async function decryptPayloads(message: unknown): Promise<string[]> {
  if (typeof message !== 'object' || message === null || ArrayBuffer.isView(message)) return [];
  if ('metadata' in message && 'data' in message && ArrayBuffer.isView(message.data)) {
    const [payload] = await createEncryptionCodec([payloadKey]).decode([message as never]);
    return [Buffer.from(payload?.data ?? []).toString()];
  }
  return (await Promise.all(Object.values(message).map(decryptPayloads))).flat();
}

function mapValues<Value, Result>(record: Readonly<Record<string, Value>>, map: (value: Value) => Result): Record<string, Result> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
}
