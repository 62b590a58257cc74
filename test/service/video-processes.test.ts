/**
 * Tests videos in the process that serves them. Files of any size need constant memory, and each cost is recorded
 * exactly once, no matter what is killed.
 */
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { copyTestBundle, eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, firstKeyOf, type GatewayProcess } from '../support/gateway-process.ts';
import { run } from '../support/run.ts';
import { createVideoVendor, json, sendBytes, type VideoVendor } from './video-vendor.ts';

const mebibyte = 1024 * 1024;
const fileBytes = 200 * mebibyte;
const filePath = '/v1beta/files/big:download?alt=media';
const processes = createProcesses();
afterAll(() => processes.stopAll());

async function writeConfig(vendor: VideoVendor, home: string): Promise<void> {
  await writeFile(
    join(home, 'gateway.yaml'),
    `
providers:
  film: { base_url: ${vendor.url}/v1beta, api_key: video-key-0123456789, dialect: gemini }
models: { film/clip: { per_second: 0.05 }, film/poor-clip: { per_second: 0.05 } }
defaults: { video_model: clip }
`,
  );
}

/** Returns the resident memory of the process. */
async function memoryOf({ child }: GatewayProcess): Promise<number> {
  if (process.platform !== 'linux') return 1024 * Number(await run('ps', ['-o', 'rss=', '-p', String(child.pid)]));
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
}

interface CallRow {
  readonly outcome: string;
  readonly cost: number;
  readonly estimated: boolean;
}

async function rowsOf(gateway: GatewayProcess): Promise<readonly CallRow[]> {
  const { data } = await jsonOf<{ data: readonly CallRow[] }>(gateway.admin('GET', '/provision/teams/default/calls'));
  return data.map(({ outcome, cost, estimated }) => ({ outcome, cost, estimated }));
}

describe('a gateway that serves videos', () => {
  let vendor: VideoVendor;
  let gateway: GatewayProcess;
  let restart: () => Promise<GatewayProcess>;
  let key = '';
  beforeAll(async () => {
    vendor = await createVideoVendor();
    const { home, env } = await processes.homeWithAnyDatabase();
    await writeConfig(vendor, home);
    await mkdir(join(home, 'data'), { recursive: true });
    await copyTestBundle(join(home, 'data'));
    restart = () => processes.start('start', { home, env: { ...env, GATEWAY_TEMPORAL: 'on' } });
    gateway = await restart();
    key = firstKeyOf(gateway) ?? '';
  });
  afterAll(async () => {
    const status = await gateway.end('SIGTERM');
    await vendor.close();
    expect(status).toBe(0);
  });

  /** Starts a download without reading its body yet. */
  async function openDownload(): Promise<IncomingMessage> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const asked = request(`${gateway.url}/v1/video/download`, { method: 'POST', headers });
    asked.end(JSON.stringify({ uri: vendor.url + filePath }));
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(200);
    expect(answer.headers['content-length']).toBe(String(fileBytes));
    return answer;
  }

  test("pauses the download from the vendor while the caller doesn't read", async () => {
    vendor.files.set(filePath, (response) => sendBytes(response, fileBytes));
    // We don't measure the first download, because a new process still releases the memory of its start.
    for await (const _ of await openDownload());
    const before = await memoryOf(gateway);
    const sentBefore = vendor.bytesSent();
    const answer = await openDownload();

    let sent = -1;
    await eventually(async () => {
      const last = sent;
      sent = vendor.bytesSent();
      expect(sent).toBe(last);
    });
    // Current kernels let each receive buffer grow to 32 MiB and each send buffer to 4 MiB, and there are two of each.
    expect(sent - sentBefore).toBeLessThan(fileBytes / 2);
    let most = await memoryOf(gateway);

    let received = 0;
    let nextLook = 0;
    for await (const chunk of answer) {
      received += (chunk as Buffer).length;
      if (received < nextLook) continue;
      nextLook = received + 10 * mebibyte;
      most = Math.max(most, await memoryOf(gateway));
    }
    expect(received).toBe(fileBytes);
    // The file would be visible, because uncollected garbage is far smaller.
    expect(most - before).toBeLessThan(fileBytes - 50 * mebibyte);
  });

  test('stops downloading from the vendor when the caller disconnects', async () => {
    let isClosed = false;
    vendor.files.set(filePath, (response) => {
      response.once('close', () => {
        isClosed = true;
      });
      sendBytes(response, fileBytes);
    });
    const sentBefore = vendor.bytesSent();
    const answer = await openDownload();
    answer.destroy();
    await eventually(async () => expect(isClosed).toBe(true));
    expect(vendor.bytesSent() - sentBefore).toBeLessThan(fileBytes);
  });

  test("aborts the caller's download if the vendor's download is interrupted", async () => {
    vendor.files.set(filePath, (response) => {
      response.writeHead(200, { 'content-length': fileBytes });
      response.write(Buffer.alloc(mebibyte), () => response.destroy());
    });
    const answer = await openDownload();
    const read = async (): Promise<void> => {
      for await (const _ of answer);
    };
    await expect(read()).rejects.toThrow();
  });

  test('settles each video exactly once after a kill, with an unknown outcome for one that was starting', async () => {
    const samples = [{ video: { uri: 'https://film.example/v1/files/a' } }];
    const made = { response: { generateVideoResponse: { generatedSamples: samples } } };
    const failed = { error: { code: 13, message: 'no', status: 'INTERNAL' } };
    let isOver = false;
    let polls = 0;
    vendor.operation = (name: string, response: ServerResponse) => {
      polls += 1;
      // At first, both videos are running. Later polls get no response, so the kill happens during them.
      if (isOver) json(response, 200, { name, done: true, ...(name.includes('/clip/') ? made : failed) });
      else if (polls <= 4) json(response, 200, { name });
    };
    for (const model of ['clip', 'poor-clip'])
      expect((await gateway.call(key, '/v1/video/generations', { prompt: 'a cat', model })).status).toBe(200);
    await eventually(async () => expect(polls).toBeGreaterThanOrEqual(6));
    const estimate = { outcome: 'ok', cost: 0.4, estimated: true };
    expect(await rowsOf(gateway)).toEqual([estimate, estimate]);

    // We kill the process while the vendor starts a third video. Nobody asks for the state of the others after that.
    vendor.files.set('/v1beta/models/clip:predictLongRunning', () => gateway.child.kill('SIGKILL'));
    await expect(gateway.call(key, '/v1/video/generations', { prompt: 'a cat', duration_seconds: 4 })).rejects.toThrow();
    await gateway.exited;
    isOver = true;
    gateway = await restart();
    const settled = { outcome: 'ok', cost: 0.4, estimated: false };
    const unknown = { outcome: 'unknown', cost: 0.2, estimated: true };
    await eventually(async () =>
      expect(await rowsOf(gateway)).toEqual([unknown, { outcome: 'failed', cost: 0, estimated: false }, settled]),
    );
    expect(await jsonOf<object>(gateway.call(key, '/usage/me'))).toMatchObject({ spend: 0.6, by_source: [{ cost: 0.6, calls: 3 }] });
  });
});
