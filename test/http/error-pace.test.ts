import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { gatewayError } from '../../src/core/errors.ts';
import type { Load } from '../../src/core/event-loop-load.ts';
import { type ErrorReports, sendError } from '../../src/http/error-handler.ts';
import { createErrorPace } from '../../src/http/error-pace.ts';

const logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

function createPace() {
  const state: { time: number; load: Load } = { time: 0, load: 'busy' };
  const ownerOf = ({ headers }: IncomingMessage): string => headers.authorization ?? '';
  const pace = createErrorPace({ ownerOf, readLoad: () => state.load, now: () => state.time });
  const fail = (project: string): number => pace({ headers: { authorization: project } } as IncomingMessage);
  return { state, fail };
}

test("spaces a project's errors 5 ms apart while the event loop is busy, without delaying other projects", () => {
  const { fail } = createPace();
  expect([fail('loop'), fail('loop'), fail('loop')]).toEqual([0, 5, 10]);
  expect(fail('other')).toBe(0);
});

test("spaces a project's errors 25 ms apart while the event loop is saturated", () => {
  const { state, fail } = createPace();
  state.load = 'saturated';
  expect([fail('loop'), fail('loop'), fail('loop')]).toEqual([0, 25, 50]);
});

test("doesn't delay errors while the event loop isn't busy", () => {
  const { state, fail } = createPace();
  state.load = 'light';
  expect([fail('loop'), fail('loop')]).toEqual([0, 0]);
});

test('never delays an error by more than a second, no matter how many a project gets', () => {
  const { state, fail } = createPace();
  const delays = Array.from({ length: 1_000 }, () => fail('loop'));
  expect(Math.max(...delays)).toBe(1_000);
  state.time += 500;
  expect(fail('loop')).toBe(505);
});

test("sends a project's next error immediately after a short time without errors", () => {
  const { state, fail } = createPace();
  for (let count = 0; count < 10; count += 1) fail('loop');
  state.time += 50;
  expect(fail('loop')).toBe(0);
});

/** Sends a request to a server that responds with this error, and returns the response. */
async function request(error: Error, reports: Partial<ErrorReports>): Promise<{ status: number; body: unknown }> {
  const server = createServer((_request, response) => {
    sendError(response, error, 'chat', { logger, countError: () => undefined, errorPace: () => 0, ...reports }, 'call-1');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    const response = await fetch(`http://127.0.0.1:${port}/`);
    return { status: response.status, body: await response.json() };
  } finally {
    server.close();
    await once(server, 'close');
  }
}

test('sends a delayed error only after the delay', async () => {
  const from = performance.now();
  const { status, body } = await request(gatewayError('tenant_capped'), { errorPace: () => 100 });
  expect(performance.now() - from).toBeGreaterThan(98);
  expect(status).toBe(429);
  expect(body).toMatchObject({ error: { code: 'tenant_capped' } });
});

test('closes the connection if a delayed error cannot be sent', async () => {
  const failures: unknown[] = [];
  const reports = { logger: { ...logger, error: (fields: object) => failures.push(fields) }, errorPace: () => 1 };
  // JSON can't contain a BigInt.
  const error = gatewayError('tenant_capped', { members: { details: { error_code: 1n as unknown as string } } });
  await expect(request(error, reports)).rejects.toThrow('fetch failed');
  expect(failures).toEqual([{ call: 'call-1', err: expect.any(TypeError) }]);
});

test('drops a delayed error if the caller disconnects', async () => {
  const calls: string[] = [];
  const response = Object.assign(new EventEmitter(), {
    req: { complete: true },
    setHeader: () => undefined,
    writeHead: () => calls.push('writeHead'),
    end: () => calls.push('end'),
  });
  const send = (errorPace: () => number): void => {
    const reports = { logger, countError: () => undefined, errorPace };
    sendError(response as unknown as ServerResponse, gatewayError('tenant_capped'), 'chat', reports);
  };
  send(() => 20);
  response.emit('close');
  await wait(60);
  expect(calls).toEqual([]);
  send(() => 20);
  await wait(60);
  expect(calls).toEqual(['writeHead', 'end']);
});
