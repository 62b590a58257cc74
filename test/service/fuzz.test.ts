/**
 * Sends arbitrary requests. All responses have to be documented, without internal errors or details, and the service
 * has to keep running.
 *
 * If a test fails, it prints the seed. You can repeat it with `fc.assert(…, { seed, path })` or with `seed` below. `npm
 * run test:exhaustive` sends all 10,000 requests.
 */
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { asObject } from '../../src/core/json/narrow.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import type { TestGateway } from '../support/gateway.ts';
import { eventually, shareGateway } from '../support/gateway.ts';
import { resolveRefs } from '../support/schema-values.ts';
import { answerCheck, inside, requestsOf } from './described-requests.ts';
import type { RawRequest } from './raw-requests.ts';
import { rawRequests } from './raw-requests.ts';

const lent = shareGateway({ database: 'any' });

const goodChat = { model: 'one/echo', messages: [{ role: 'user', content: 'still there?' }] };

async function expectAlive({ call }: TestGateway): Promise<void> {
  const answer = await call('/v1/chat/completions', goodChat);
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('still there?')]);
}

describe('requests generated from the OpenAPI description', () => {
  const document = asObject(resolveRefs(describeApi(), describeApi()));
  const operations = Object.entries(asObject(document.paths)).flatMap(([path, methods]) =>
    Object.entries(asObject(methods)).map(([method, operation]) => ({
      title: `${method.toUpperCase()} ${path}`,
      path,
      method,
      operation: asObject(operation),
    })),
  );

  it('serves an OpenAPI description that matches the code', async () => {
    const answer = await fetch(`${lent().url}/openapi.json`);
    expect([answer.status, await answer.json()]).toEqual([200, describeApi()]);
  });

  it.each(operations)('documents every response of $title in the OpenAPI description', async ({ path, method, operation }) => {
    const gateway = lent();
    if (path.startsWith('/provision')) await gateway.withProject('fuzz');
    const check = answerCheck(operation);
    await fc.assert(
      fc.asyncProperty(requestsOf(path, operation, gateway.key), async ({ address, headers, body }) => {
        const init = { method: method.toUpperCase(), headers, redirect: 'manual' as const, ...(body !== null && { body }) };
        await check(await fetch(gateway.url + address, init));
      }),
      { numRuns: isExhaustive ? 150 : 10, interruptAfterTimeLimit: 15_000, markInterruptAsFailure: false },
    );
    await expectAlive(gateway);
  });
});

const count = isExhaustive ? 10_000 : 700;

describe(`${count} malformed requests over raw sockets`, () => {
  const concurrency = 40;

  it('never answers malformed requests with a 5xx', async () => {
    const gateway = await lent().withProject('sockets');
    const before = await settledSockets(gateway, concurrency);
    const seed = fc.sample(fc.integer(), 1)[0] ?? 0;
    // Random requests rarely get 401 or 404, so add one of each.
    const rare = ['/v1/models', '/nowhere'].map(
      (path): RawRequest => ({ bytes: Buffer.from(`GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`), cuts: [], leaves: 'wait' }),
    );
    const requests = [...fc.sample(rawRequests(gateway.key), { seed, numRuns: count }), ...rare];
    const statuses = new Map<string, number>();
    const queue = requests.entries();
    const port = Number(new URL(gateway.url).port);
    const pulse = createPulse(gateway);
    const work = async (): Promise<void> => {
      for (const [index, request] of queue) {
        const said = await send(port, request, pulse);
        const found = [...said.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status = '']) => status);
        for (const status of found.length > 0 ? found : ['none']) statuses.set(status, (statuses.get(status) ?? 0) + 1);
        const wrong = found.filter((status) => !/^(?:10[02]|200|400|401|404|408|413|415|417|431)$/.test(status));
        expect({ seed, index, wrong, said: wrong.length > 0 ? said : '' }).toEqual({ seed, index, wrong: [], said: '' });
        if (found.some((status) => status >= '400'))
          expect({ seed, index, said }).toEqual({ seed, index, said: expect.not.stringMatching(inside) });
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
    // Every kind occurs: rejected by the parser, rejected by the gateway, and served.
    expect([...statuses.keys()]).toEqual(expect.arrayContaining(['200', '400', '401', '404', '431', 'none']));
    await expectAlive(gateway);
    // A few idle vendor connections may be added, but a leak would add thousands.
    await eventually(async () => expect(sockets()).toBeLessThanOrEqual(before + concurrency));
    expect(gateway.logs.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  });
});

function sockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name.startsWith('TCP')).length;
}

/**
 * Returns the number of open sockets once all keep-alive connections exist, both to vendors and from the `fetch` of
 * this test.
 */
async function settledSockets({ call }: TestGateway, concurrency: number): Promise<number> {
  const calls = Array.from({ length: concurrency }, () => call('/v1/chat/completions', { ...goodChat, model: 'one/slow-200' }));
  for (const answer of await Promise.all(calls)) await answer.text();
  await sleep(50);
  return sockets();
}

/** Resolves when a valid call that started after this one, on a separate connection, has its response. */
type Pulse = () => Promise<void>;

/** Makes one call at a time for everybody who waits. */
function createPulse({ url, key }: TestGateway): Pulse {
  let waiting: { resolve(): void; reject(error: unknown): void }[] = [];
  let isBeating = false;
  const beat = async (): Promise<void> => {
    isBeating = true;
    while (waiting.length > 0) {
      const those = waiting;
      waiting = [];
      await callOnce(url, key).then(
        () => those.forEach(({ resolve }) => void resolve()),
        (error: unknown) => those.forEach(({ reject }) => void reject(error)),
      );
    }
    isBeating = false;
  };
  return () =>
    new Promise<void>((resolve, reject) => {
      waiting.push({ resolve, reject });
      if (!isBeating) void beat();
    });
}

async function callOnce(url: string, key: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const request = httpRequest(`${url}/v1/chat/completions`, { method: 'POST', agent: false, headers });
  request.end(JSON.stringify(goodChat));
  const [response]: IncomingMessage[] = await once(request, 'response');
  response?.resume();
  if (response?.statusCode !== 200) throw new Error(`a good call was answered ${response?.statusCode}`);
}

/** Returns what the service sent on one connection until it closed or the client left. */
async function send(port: number, { bytes, cuts, leaves }: RawRequest, pulse: Pulse): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => {
    pieces.push(piece);
    // The service has started to respond, so a moment later we have seen enough.
    if (leaves !== 'end' && pieces.length === 1) setTimeout(() => socket.destroy(), 20);
  });
  // The service may reset a connection that only carries garbage.
  socket.on('error', () => undefined);
  const closed = once(socket, 'close').catch(() => undefined);
  await Promise.race([closed, once(socket, 'connect').catch(() => undefined)]);
  let from = 0;
  for (const cut of [...cuts.filter((at) => at < bytes.length), bytes.length]) {
    if (cut > from && !socket.destroyed) socket.write(bytes.subarray(from, cut));
    from = Math.max(from, cut);
    if (cuts.length > 0) await new Promise(setImmediate);
  }
  if (leaves === 'end') socket.end();
  if (leaves === 'reset') await sleep(1);
  // However slow the machine is, this request had its time once valid calls that came later have their responses.
  else for (let beat = 0; beat < 2 && !socket.destroyed; beat += 1) await Promise.race([closed, pulse()]);
  socket.destroy();
  await closed;
  return Buffer.concat(pieces).toString('latin1');
}
