/**
 * Tests the local embedder of a service with the real model in its own process. Also tests a missing model and a
 * process that dies.
 */
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { EmbedderFiles } from '../../src/embedder/messages.ts';
import { identifyProcess } from '../../src/temporal/dev-server/processes.ts';
import { embedderFiles, findEmbedder } from '../support/embedder-files.ts';
import { eventually } from '../support/gateway.ts';
import { createProcesses, firstKeyOf, type GatewayProcess } from '../support/gateway-process.ts';

const processes = createProcesses();
const model = 'local/bge-small-en-v1.5';
let files: EmbedderFiles;
let home = '';
let folder = '';
let gateway: GatewayProcess;
let key = '';

beforeAll(async () => {
  files = await embedderFiles();
  const database = await processes.homeWithAnyDatabase();
  home = database.home;
  folder = join(home, 'embedder');
  await mkdir(folder);
  for (const { weights, tokenizer } of files.models) {
    await symlink(weights, join(folder, 'model.onnx'));
    await symlink(tokenizer, join(folder, 'tokenizer.json'));
  }
  // Neither the cache nor npm has the runtime; the home in the environment identifies the processes of this test.
  const env = {
    ...database.env,
    GATEWAY_LOCAL_EMBEDDER: '',
    GATEWAY_LOCAL_EMBEDDER_DIR: 'embedder',
    XDG_CACHE_HOME: join(home, 'cache'),
    PATH: '/nowhere',
  };
  gateway = await processes.start('start', { home, env });
  key = firstKeyOf(gateway) ?? '';
});
afterAll(processes.stopAll);

it('returns 502 from the local embedder until its files exist', async () => {
  // The first attempt may fail before the service is ready.
  expect(gateway.stdout()).toMatch(/Memory search {3}by text (?:until local\/bge-small-en-v1\.5 is loaded|only: )/);
  await eventually(async () => expect(gateway.stdout()).toMatch(/by text only: \S+ is not available \(npm is not on the PATH\)/));
  expect((await embed('tea')).status).toBe(502);
  expect(await readUp()).toBe('0');
  const found = await gateway.call(key, '/v1/memory/search', { query: 'tea' });
  expect(await found.json()).toMatchObject({ vector: false });

  await symlink(files.runtime, join(folder, files.runtime.split('/').at(-1) ?? ''));
  gateway.child.kill('SIGHUP');
  await untilReady();
  await eventually(async () => expect(gateway.stdout()).toContain(`Memory search   by meaning, with ${model}`));
  const searched = await gateway.call(key, '/v1/memory/search', { query: 'tea' });
  expect(await searched.json()).toMatchObject({ vector: true });
  expect(await readUp()).toBe('1');
});

it('returns unit vectors from the local embedder', async () => {
  const texts = ['She enjoys a cup of green tea', 'The quarterly report is due on Friday', 'the end of a long text '.repeat(200)];
  const { vectors, tokens } = await embed(texts);
  expect(vectors.map((vector) => vector.length)).toEqual([384, 384, 384]);
  for (const vector of vectors) expect(similarity(vector, vector)).toBeCloseTo(1, 5);
  expect(tokens).toBe(9 + 9 + 512);
  for (const [index, text] of texts.entries()) expect((await embed(text)).vectors).toEqual([vectors[index]]);
  const [question] = (await embed('What beverage does she like?')).vectors;
  expect(similarity(question, vectors[0])).toBeGreaterThan(similarity(question, vectors[1]) + 0.1);
});

it('returns embeddings as base64 if the request asks for it', async () => {
  const response = await gateway.call(key, '/v1/embeddings', { model, input: 'tea', encoding_format: 'base64' });
  const { data } = (await response.json()) as { data: { embedding: string }[] };
  const bytes = Buffer.from(data[0]?.embedding ?? '', 'base64');
  const [vector = []] = (await embed('tea')).vectors;
  expect(bytes.readFloatLE(0)).toBeCloseTo(vector[0] ?? 0, 6);
  expect(bytes).toHaveLength(384 * 4);
  for (const [input, members] of [[[1, 2]], ['tea', { dimensions: 256 }], ['tea', { model: 'local/other' }], [[]]] as const)
    expect((await embed(input, members)).status).toBe(400);
});

it('embeds a short text without waiting for a long request', async () => {
  const order: string[] = [];
  const long = embed(Array.from({ length: 60 }, (_, index) => `${index} and the rest of a passage `.repeat(20))).then(() =>
    order.push('long'),
  );
  // When the first text has been embedded, the long job must be running, so the short one comes second.
  await embed('first');
  await embed('second').then(() => order.push('short'));
  await long;
  expect(order).toEqual(['short', 'long']);
});

it('restarts the local embedder after a kill -9', async () => {
  const first = await findEmbedder(gateway.child.pid);
  process.kill(first, 'SIGKILL');
  await eventually(async () => expect(gateway.logs().some(({ msg }) => msg === 'local embedder died; restarting it')).toBe(true));
  await untilReady();
  const second = await findEmbedder(gateway.child.pid);
  expect(second).not.toBe(first);
  await gateway.end('SIGKILL');
  await eventually(async () => expect(await identifyProcess(second)).toBe(null));
});

async function embed(input: unknown, members: object = {}): Promise<{ status: number; vectors: number[][]; tokens: number }> {
  const response = await gateway.call(key, '/v1/embeddings', { model, input, ...members });
  const { data = [], usage } = (await response.json()) as { data?: { embedding: number[] }[]; usage?: { prompt_tokens: number } };
  return { status: response.status, vectors: data.map(({ embedding }) => embedding), tokens: usage?.prompt_tokens ?? 0 };
}

/** Reads the metric that says whether it responds. */
async function readUp(): Promise<string | undefined> {
  const response = await gateway.admin('GET', '/metrics');
  return /^gateway_local_embedder_up (\d)$/m.exec(await response.text())?.[1];
}

const untilReady = () => eventually(async () => expect((await embed('ready')).status).toBe(200));

function similarity(left: readonly number[] = [], right: readonly number[] = []): number {
  return left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
}
