/**
 * Tests streams with readers that are slow or disconnect, and with vendors that go silent. Memory has to stay bounded,
 * no call waits forever, and every call is settled.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isExhaustive } from '../support/exhaustive.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, defaultYaml, eventually, shareGateway, withGateway } from '../support/gateway.ts';
import { startLocalServer } from '../support/local-server.ts';
import { readUntilCut } from '../support/read-until-cut.ts';

/** A request and its response on an HTTP server in this process. */
interface Served {
  readonly port: number | undefined;
  readonly socket: Socket;
  readonly response: ServerResponse;
}

/**
 * Every request to an HTTP server in this process, i.e. the gateway's and the vendor's, because we can't observe them
 * from outside.
 */
const served: Served[] = [];
const note = (message: unknown): void => {
  const { socket, response } = message as { socket: Socket; response: ServerResponse };
  served.push({ port: socket.localPort, socket, response });
};
beforeAll(() => subscribe('http.server.request.start', note));
afterAll(() => {
  unsubscribe('http.server.request.start', note);
});

const servedAt = (url: string): readonly Served[] => served.filter(({ port }) => port === Number(new URL(url).port));

/** Resolves with the next request to the vendor. Call it before you call the gateway. */
function nextRequest({ vendor }: TestGateway): Promise<Served> {
  const before = servedAt(vendor.url).length;
  return eventually(async () => {
    const next = servedAt(vendor.url)[before];
    if (!next) throw new Error('the vendor has been asked nothing');
    return next;
  });
}

/** Returns how a response ended: complete, or with a broken connection. */
async function endOf({ response }: Served): Promise<'whole' | 'cut'> {
  if (!response.closed) await once(response, 'close', { signal: AbortSignal.timeout(300_000) });
  return response.writableFinished ? 'whole' : 'cut';
}

/** Waits until the vendor cannot write any more, because every buffer on the path is full. */
async function untilNothingMoves(vendorUrl: string): Promise<void> {
  // We wait for several intervals without a byte, because on a busy machine the process itself may have paused for one.
  for (let before = -1, still = 0; still < 3; await sleep(100)) {
    const written = bytesWrittenAt(vendorUrl);
    still = written === before ? still + 1 : 0;
    before = written;
  }
}

const bytesWrittenAt = (url: string): number => servedAt(url).reduce((sum, { socket }) => sum + socket.bytesWritten, 0);

/** Waits until the gateway has read the end of its latest caller's connection. */
function untilNoticed({ url }: TestGateway): Promise<void> {
  return eventually(async () => expect(servedAt(url).at(-1)?.socket).toMatchObject({ readableEnded: true }));
}

const mebibyte = 1024 * 1024;

const readers = isExhaustive ? 100 : 16;

describe(`${readers} readers that pause for longer than the vendor timeout`, () => {
  // More than the socket buffers between the gateway and the reader hold (we measured 4.5 MiB).
  const answer = longAnswer(7 * mebibyte);
  /**
   * The most that the vendor's connection, the event scanner, the response and its reader hold per stream (we measured
   * 0.2 to 0.9 MiB).
   */
  const heldLimitBytes = 1.5 * mebibyte;
  const unwrittenLimitBytes = 0.25 * mebibyte;
  /** Longer than any step takes on a busy machine. */
  const idleTimeoutMs = 600_000;

  it(
    'applies backpressure to the vendor instead of buffering streams for slow readers',
    () =>
      withStreamVendor(answer, (vendorUrl) =>
        withGateway({ database: 'any', yaml: () => yamlOf(vendorUrl, idleTimeoutMs) }, async (gateway) => {
          await readAll(await openStream(gateway, 'one/any'), answer); // Warm-up.
          const before = bufferBytes();
          const streams = await Promise.all(Array.from({ length: readers }, () => openStream(gateway, 'one/any')));
          await untilNothingMoves(vendorUrl);
          passVendorTime(idleTimeoutMs * 1.5);
          const held = bufferBytes() - before;
          const waiting = servedAt(gateway.url).map(({ response }) => response.writableLength);
          expect(Math.max(...waiting)).toBeGreaterThan(0); // The readers do wait.
          expect(Math.max(...waiting)).toBeLessThan(unwrittenLimitBytes);
          expect(held).toBeLessThan(readers * heldLimitBytes);
          await Promise.all(streams.map((stream) => readAll(stream, answer)));
          const rows = await callsOf(gateway, '?limit=101');
          expect(rows.map(({ outcome }) => outcome)).toEqual(Array.from({ length: readers + 1 }, () => 'ok'));
          const kib = (bytes: number): string => `${Math.round(bytes / 1024)} KiB`;
          show(
            `${readers} readers that wait: ${kib(held / readers)} a stream in buffers, at most ${kib(Math.max(...waiting))} of it to be written`,
          );
        }),
      ),
    // With 100 readers, 700 MiB pass through one process that is reader, gateway and vendor. That takes ten seconds,
    // and much longer on a busy machine.
    600_000,
  );
});

/**
 * An event stream of about `bytes`. Most of it is in a member that the gateway ignores, so that the record stays small.
 */
function longAnswer(bytes: number): Buffer {
  const chunk = (content: string, finish: string | null, rest: object): string =>
    `data: ${JSON.stringify({ id: 'a', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content }, finish_reason: finish }], ...rest })}\n\n`;
  const events = Array.from({ length: bytes / 16_384 }, (_, index) =>
    chunk(`${index} `, null, { padding: String(index % 10).repeat(16_200) }),
  );
  const end = chunk('', 'stop', { usage: { prompt_tokens: 3, completion_tokens: events.length } });
  return Buffer.from([...events, end, 'data: [DONE]\n\n'].join(''));
}

/** A vendor that responds to every request with `answer`, as fast as the client reads. */
async function withStreamVendor<Result>(answer: Buffer, work: (url: string) => Promise<Result>): Promise<Result> {
  const server = await startLocalServer(async (request, response) => {
    request.resume();
    response.on('error', () => undefined);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (let at = 0; at < answer.length && !response.destroyed; at += 65_536)
      if (!response.write(answer.subarray(at, at + 65_536))) await drained(response);
    response.end();
  });
  try {
    return await work(server.url);
  } finally {
    await server.close();
  }
}

/** Resolves once the reader has read everything or has disconnected. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done).off('close', done);
      resolve();
    };
    response.once('drain', done).once('close', done);
  });
}

function yamlOf(vendorUrl: string, idleTimeoutMs: number): string {
  return `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: key-one, dialect: chat, idle_timeout_ms: ${idleTimeoutMs} }
models:
  one/any: { input: 1, output: 2 }
`;
}

/** Opens a streamed call on a separate connection and reads only its headers. */
async function openStream({ url, key }: TestGateway, model: string): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const request = httpRequest(`${url}/v1/chat/completions`, { method: 'POST', agent: false, headers });
  request.end(JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] }));
  const [response]: IncomingMessage[] = await once(request, 'response');
  if (response?.statusCode !== 200) throw new Error(`answered ${response?.statusCode}`);
  return response;
}

/** Reads to the end and throws at the first unexpected byte. */
async function readAll(stream: IncomingMessage, expected: Buffer): Promise<void> {
  let at = 0;
  for await (const chunk of stream) {
    const bytes: Buffer = chunk;
    if (!bytes.equals(expected.subarray(at, at + bytes.length))) throw new Error(`other bytes at ${at}`);
    at += bytes.length;
  }
  expect(at).toBe(expected.length);
}

/** Runs the timers of connections to vendors as if this time had passed. */
function passVendorTime(ms: number): void {
  const { tick } = createRequire(import.meta.url)('undici/lib/util/timers.js') as { tick(ms: number): void };
  // The first tick activates the timers that were set since the last one.
  for (const delayMs of [0, ms]) tick(delayMs);
}

/** Bytes in live buffers of this process. */
function bufferBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // V8 frees array buffers in the background. The second collection waits until the first one has done that.
  collect();
  collect();
  return process.memoryUsage().arrayBuffers;
}

const paced = 'pace-20+long-1000';
const yamlOfRoutes = (vendorUrl: string, deadUrl: string): string =>
  defaultYaml(vendorUrl, deadUrl)
    .replace('models:\n', `${impatientRow(vendorUrl, 'chat')}${impatientRow(vendorUrl, 'messages')}models:\n`)
    .replace('models:', `models:\n  one/${paced}: { input: 1, output: 5 }\n  three/${paced}: { input: 1, output: 5 }`);

/** We only use this row with silent vendors, because on a busy machine any stream may pause for a while. */
const impatientRow = (vendorUrl: string, dialect: string): string =>
  `  impatient-${dialect}: { base_url: ${vendorUrl}/v1, api_key: any, dialect: ${dialect}, idle_timeout_ms: 1500 }\n`;

const routes = [
  { path: '/v1/chat/completions', provider: 'one', dialect: 'chat' },
  { path: '/v1/messages', provider: 'three', dialect: 'messages' },
] as const;

describe.each(routes)('on $path', ({ path, provider, dialect }) => {
  const shared = shareGateway({ database: 'any', yaml: yamlOfRoutes });

  const call = (gateway: TestGateway, fault: string, { stream, signal }: { stream: boolean; signal?: AbortSignal }): Promise<Response> =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: `${fault.startsWith('stall') ? `impatient-${dialect}` : provider}/${fault}`,
        stream,
        max_tokens: 50,
        messages: [{ role: 'user', content: 'Hello' }],
      }),
      ...(signal && { signal }),
    });

  /** Returns the only call of the gateway's project once it is settled. */
  const settled = (gateway: TestGateway): Promise<unknown> =>
    eventually(async () => {
      const [row] = await callsOf(gateway);
      if (!row) throw new Error('no call is settled');
      return row;
    });

  it('cancels the vendor request if the caller disconnects during a stream', async () => {
    const gateway = await shared().withProject('leaves');
    const leaving = new AbortController();
    const asking = nextRequest(gateway);
    const response = await call(gateway, paced, { stream: true, signal: leaving.signal });
    const asked = await asking;
    await response.body?.getReader().read();
    expect(asked.response.closed).toBe(false);
    leaving.abort();
    expect(await endOf(asked)).toBe('cut');
    expect(await settled(gateway)).toMatchObject({
      outcome: 'client_left',
      status: 200,
      estimated: true,
      attempts: [{ n: 1, outcome: 'client_left', status: 200 }],
    });
    const [row] = await callsOf(gateway);
    expect(row?.tokens.output).toBeGreaterThan(0);
    expect(row?.tokens.output).toBeLessThan(500);
    expect(row?.cost).toBeGreaterThan(0);
  });

  it('cancels the vendor request if the caller disconnects without reading', async () => {
    const gateway = await shared().withProject('sleeps');
    const leaving = new AbortController();
    const asking = nextRequest(gateway);
    const response = await call(gateway, 'big-32768', { stream: true, signal: leaving.signal });
    const asked = await asking;
    await untilNothingMoves(gateway.vendor.url);
    expect(asked.response.closed).toBe(false);
    leaving.abort();
    expect(await endOf(asked)).toBe('cut');
    expect(response.bodyUsed).toBe(false);
    expect(await settled(gateway)).toMatchObject({ outcome: 'client_left', estimated: true, attempts: [{ outcome: 'client_left' }] });
  });

  it('charges for the prompt if the caller disconnects before the first chunk', async () => {
    const gateway = await shared().withProject('hasty');
    const leaving = new AbortController();
    const asking = nextRequest(gateway);
    const answered = call(gateway, 'slow-20000', { stream: true, signal: leaving.signal }).catch((error: unknown) => error);
    const asked = await asking;
    leaving.abort();
    expect(await answered).toMatchObject({ name: 'AbortError' });
    expect(await endOf(asked)).toBe('cut');
    const attempts = [{ outcome: 'client_left', status: null }];
    expect(await settled(gateway)).toMatchObject({ outcome: 'client_left', status: 499, estimated: true, attempts });
    const [row] = await callsOf(gateway);
    expect(row?.tokens.input).toBeGreaterThan(0);
  });

  it('charges the full cost of a plain call if the caller disconnects', async () => {
    const gateway = await shared().withProject('plain');
    const leaving = new AbortController();
    const asking = nextRequest(gateway);
    const answered = call(gateway, 'held+long-50', { stream: false, signal: leaving.signal }).catch((error: unknown) => error);
    const asked = await asking;
    leaving.abort();
    expect(await answered).toMatchObject({ name: 'AbortError' });
    await untilNoticed(gateway);
    await eventually(async () => expect(gateway.vendor.release()).toBe(1));
    expect(await endOf(asked)).toBe('whole');
    expect(await settled(gateway)).toMatchObject({ outcome: 'ok', status: 200, estimated: false, attempts: [{ outcome: 'ok' }] });
  });

  it('reuses the same vendor connection for consecutive streams', async () => {
    const gateway = await shared().withProject('in-a-row');
    const before = servedAt(gateway.vendor.url).length;
    const models = ['echo', 'long-300', 'crlf+long-5', dialect === 'chat' ? 'no-done+echo' : 'tiny-bytes+echo', 'echo'];
    for (const model of models) expect((await (await call(gateway, model, { stream: true })).text()).length).toBeGreaterThan(100);
    await (await call(gateway, 'echo', { stream: false })).text();
    const used = servedAt(gateway.vendor.url).slice(before);
    expect(used).toHaveLength(models.length + 1);
    expect(new Set(used.map(({ socket }) => socket)).size).toBe(1);
  });

  it('records a call as interrupted if the vendor stops sending', async () => {
    const gateway = await shared().withProject('silence');
    const asking = nextRequest(gateway);
    const response = await call(gateway, 'stall-after-3+long-20', { stream: true });
    const asked = await asking;
    const { text, isCut } = await readUntilCut(response);
    expect(isCut).toBe(true);
    expect(text).toContain('quick');
    expect(text).not.toMatch(/\[DONE\]|message_stop/);
    expect(text.match(/^event: error$/gm) ?? []).toHaveLength(dialect === 'messages' ? 1 : 0);
    expect(await endOf(asked)).toBe('cut');
    expect(await settled(gateway)).toMatchObject({
      outcome: 'interrupted',
      code: 'upstream_failed',
      estimated: true,
      attempts: [{ outcome: 'interrupted' }],
    });
  });

  it('returns 502 if the vendor stops sending in the middle of a plain response', async () => {
    const gateway = await shared().withProject('half');
    const response = await call(gateway, 'stall-after-3+long-20', { stream: false });
    expect([response.status, await response.text()]).toEqual([502, expect.stringContaining('the response stalled')]);
    expect(await settled(gateway)).toMatchObject({ outcome: 'failed', code: 'upstream_failed', attempts: [{ outcome: 'failed' }] });
  });
});

/** Prints a measurement on standard error. */
function show(line: string): void {
  process.stderr.write(`${line}\n`);
}
