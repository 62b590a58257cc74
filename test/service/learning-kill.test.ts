/**
 * Kills the worker during calls to the memory model. Memories have to be stored once, and completed steps can't be
 * repeated.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { copyTestBundle, eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, firstKeyOf } from '../support/gateway-process.ts';
import { startLocalServer } from '../support/local-server.ts';

const processes = createProcesses();
afterAll(() => processes.stopAll());

type Job = 'chat' | 'memories' | 'consolidation';

/** A chat vendor that never responds to the first request of each memory job. */
async function createVendor() {
  const requests: Job[] = [];
  const server = await startLocalServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Body;
      const job = body.response_format?.json_schema.name ?? 'chat';
      requests.push(job);
      if (job !== 'chat' && requests.filter((other) => other === job).length === 1) return;
      reply(response, job === 'chat' ? 'Noted.' : JSON.stringify(job === 'memories' ? memories : consolidation));
    });
  });
  return { requests, close: server.close, url: `${server.url}/v1` };
}

interface Body {
  readonly response_format?: { readonly json_schema: { readonly name: 'memories' | 'consolidation' } };
}

const memories = { memories: [{ evidence: 'I live in Oslo', text: 'Lives in Oslo', names: ['Oslo'], kind: 'fact', importance: 3 }] };
const consolidation = { merges: [], facts: [], page: 'Lives in Oslo' };

function reply(response: ServerResponse, content: string): void {
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(
    JSON.stringify({
      id: 'x',
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
      usage,
    }),
  );
}

test('recovers from a kill -9 during each learning step that calls the model', async () => {
  const vendor = await createVendor();
  const { home, env } = await processes.homeWithAnyDatabase();
  await mkdir(join(home, 'data'), { recursive: true });
  await copyTestBundle(join(home, 'data'));
  await writeFile(
    join(home, 'gateway.yaml'),
    `
providers: { one: { base_url: ${vendor.url}, api_key: key-one, dialect: chat } }
models: { one/m: { input: 1, output: 1 } }
tiers: { standard: [one/m], trivial: [one/m] }
memory: { idle_minutes: 0.02 }
`,
  );
  const start = () => processes.start('start', { home, env: { ...env, GATEWAY_TEMPORAL: 'on' } });
  let gateway = await start();
  const key = firstKeyOf(gateway) ?? '';
  await gateway.admin('PUT', '/provision/teams/default/memory', { batch_of: 2 });
  const body = { model: 'standard', messages: [{ role: 'user', content: 'I live in Oslo.' }] };
  const response = await gateway.call(key, '/v1/chat/completions', body, { 'x-gateway-memory-subject': 'ada' });
  expect(response.status).toBe(200);
  for (const job of ['memories', 'consolidation'] as const) {
    await eventually(async () => expect(vendor.requests).toContain(job));
    await gateway.end('SIGKILL');
    gateway = await start();
  }
  const { data } = await eventually(async () => {
    const batches = await jsonOf<{ data: readonly { id: string; state: string; attempts: number }[] }>(
      gateway.admin('GET', '/provision/teams/default/batches'),
    );
    expect(batches.data).toMatchObject([{ state: 'done' }]);
    return batches;
  });
  // Each job was sent twice, because the kill lost the response. Completed steps were not sent again.
  expect(vendor.requests).toEqual(['chat', 'memories', 'memories', 'consolidation', 'consolidation']);
  expect(data).toMatchObject([{ attempts: 4, error: null, memories: { written: 1, repeated: 0 } }]);
  expect(await jsonOf(gateway.call(key, '/v1/memory/wake-up', { subject: 'ada' }))).toMatchObject({
    subject_memories: [{ text: 'Lives in Oslo', origin: 'observed' }],
    profile: { text: 'Lives in Oslo' },
  });
  expect(await gateway.end('SIGTERM')).toBe(0);
  await vendor.close();
});
