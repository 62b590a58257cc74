import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Worker } from 'node:worker_threads';
import { expect, test } from '@jest/globals';
import { startFairly } from '../../src/http/fair-starts.ts';

/** Runs the event loop turn by turn. Starting a request takes `requestMs` of the simulated time. */
function createStarts(requestMs: number) {
  let time = 0;
  let run: (() => void) | null = null;
  const started: string[] = [];
  const requests: IncomingMessage[] = [];
  let checks = 0;
  const toResponse = (project: string, url: string): ServerResponse => {
    let isDestroyed = false;
    const request = {
      url,
      headers: { authorization: `Bearer ${project}` },
      socket: {},
      get destroyed() {
        checks += 1;
        return isDestroyed;
      },
      set destroyed(value) {
        isDestroyed = value;
      },
    } as IncomingMessage;
    requests.push(request);
    return { req: request } as ServerResponse;
  };
  const ownerOf = ({ headers }: IncomingMessage): string => headers.authorization ?? '';
  const { listener, connectionAccepted } = startFairly(
    ({ headers }) => {
      time += requestMs;
      started.push(headers.authorization?.replace('Bearer ', '') ?? '');
    },
    {
      ownerOf,
      now: () => time,
      nextTurn: (next) => {
        run = next;
      },
      later: (next, ms) => {
        run = () => {
          time += ms;
          next();
        };
      },
    },
  );
  return {
    /** Accepts a connection, which takes a millisecond. */
    accept() {
      time += 1;
      connectionAccepted();
    },
    receive(project: string, count: number, url = '/v1/chat/completions') {
      for (let at = 0; at < count; at += 1) {
        const response = toResponse(project, url);
        listener(response.req, response as Parameters<typeof listener>[1]);
      }
    },
    /** Runs one turn, and returns the projects whose requests were started. */
    turn(): string[] {
      const next = run;
      run = null;
      next?.();
      return started.splice(0);
    },
    time: () => time,
    pass(ms: number) {
      time += ms;
    },
    disconnect(project: string) {
      for (const request of requests) if (ownerOf(request) === `Bearer ${project}`) request.destroyed = true;
    },
    /** How many times we've checked whether a client has disconnected. */
    checks: () => checks,
    isIdle: () => run === null,
  };
}

test("starts another project's requests immediately while one project floods the gateway", () => {
  const { receive, turn } = createStarts(1);
  receive('flood', 2_000);
  turn();
  receive('other', 3);
  expect(turn().slice(0, 3)).toEqual(['other', 'other', 'other']);
});

test('the project with fewer waiting requests goes first', () => {
  const { receive, turn } = createStarts(1);
  receive('flood', 2_000);
  receive('busy', 40);
  expect(turn().slice(0, 40)).toEqual(Array(40).fill('busy'));
});

test('starts only a few requests per event loop turn, even if two projects send many', () => {
  const { receive, turn } = createStarts(1);
  receive('flood', 2_000);
  receive('other flood', 1_999);
  expect(turn().length).toBeLessThan(100);
});

test('starts requests as fast as they arrive once 10,000 are waiting', () => {
  const { receive, turn } = createStarts(2);
  receive('flood', 8_016);
  expect(turn()).toHaveLength(16);
  receive('flood', 5_000);
  expect(turn()).toHaveLength(3_000);
  receive('flood', 5_000);
  expect(turn()).toHaveLength(5_000);
});

test('checks if a client has disconnected only when its request is started', () => {
  const { receive, turn, checks } = createStarts(1);
  receive('busy', 1_000);
  receive('searching', 1_000, '/v1/memory/search');
  turn();
  const before = checks();
  const started = turn().length;
  expect(checks() - before).toBe(started);
});

test("doesn't start queued requests whose client has disconnected", () => {
  const { receive, turn, disconnect } = createStarts(1);
  receive('flood', 30);
  receive('other', 30);
  disconnect('flood');
  expect(turn()).not.toContain('flood');
});

test('starts every queued request exactly once', () => {
  const { receive, turn, isIdle } = createStarts(0.1);
  receive('one', 100);
  receive('two', 100);
  const started: string[] = [];
  while (!isIdle()) started.push(...turn());
  expect(started.filter((project) => project === 'one')).toHaveLength(100);
  expect(started.filter((project) => project === 'two')).toHaveLength(100);
});

test('adapts the number of requests started per turn to how long the turns take', () => {
  const slow = createStarts(2);
  const fast = createStarts(0.01);
  for (const { receive } of [slow, fast]) receive('flood', 1_000);
  const counts = ({ turn }: typeof slow) => Array.from({ length: 6 }, () => turn().length);
  expect(counts(slow)).toEqual([16, 8, 4, 2, 3, 2]);
  expect(counts(fast)).toEqual([16, 17, 18, 19, 20, 21]);
});

/** Returns the projects that started something within the given time, with the time at which they did. */
function runFor(
  limitMs: number,
  { turn, time, isIdle }: Pick<ReturnType<typeof createStarts>, 'turn' | 'time' | 'isIdle'>,
): [project: string, at: number][] {
  const started: [string, number][] = [];
  for (const from = time(); time() - from < limitMs && !isIdle(); ) {
    const at = time() - from;
    for (const project of turn()) started.push([project, at]);
  }
  return started;
}

test("starts a search only every 50 ms while another project's calls are waiting", () => {
  const starts = createStarts(1);
  starts.receive('busy', 1_000);
  starts.turn();
  starts.receive('searching', 16, '/v1/memory/search');
  const startedAt = runFor(250, starts).flatMap(([project, at]) => (project === 'searching' ? [at] : []));
  expect(startedAt.length).toBeGreaterThanOrEqual(4);
  for (const [index, at] of startedAt.entries()) expect(at - (startedAt[0] ?? 0)).toBeGreaterThanOrEqual(50 * index);
});

test('starts waiting searches within about two seconds, no matter how many there are', () => {
  const starts = createStarts(0.1);
  starts.receive('busy', 9_000);
  starts.turn();
  let started = 0;
  // A thousand searches per second
  for (let sent = 0; sent < 6_000; sent += 100) {
    starts.receive('searching', 100, '/v1/memory/search');
    starts.receive('busy', 1_000);
    started += runFor(100, starts).filter(([project]) => project === 'searching').length;
  }
  expect(started).toBeGreaterThan(3_500);
});

test("searches from disconnected clients don't delay other searches", () => {
  const starts = createStarts(1);
  starts.receive('busy', 1_000);
  starts.turn();
  starts.receive('searching', 30, '/v1/memory/search');
  starts.disconnect('searching');
  starts.receive('searching', 1, '/v1/memory/search');
  expect(starts.turn()).toContain('searching');
});

test.each([
  '/v1/memory/items',
  '/v1//memory/items',
  '/V1/Memory/items',
  '/provision/teams',
  '/console',
  '/mcp',
  'http://host/v1/memory/items',
])("%s lets other projects' calls go first", (url) => {
  const { receive, turn } = createStarts(1);
  receive('busy', 1_000);
  turn();
  receive('other', 3, url);
  expect(turn().filter((project) => project === 'other')).toHaveLength(1);
});

test.each(['/v1/embeddings', '//v1/messages', '/V1/messages', 'http://host/v1/messages', '/healthz', '/readyz?verbose'])(
  "%s doesn't let other projects' calls go first",
  (url) => {
    const { receive, turn } = createStarts(1);
    receive('busy', 1_000);
    turn();
    receive('other', 3, url);
    expect(turn().filter((project) => project === 'other')).toHaveLength(3);
  },
);

test('starts health checks immediately, even behind a flood from the same address', () => {
  const { receive, turn } = createStarts(1);
  receive('address', 1_000, '/console');
  turn();
  receive('address', 1, '/readyz');
  receive('address', 1_000, '/console');
  // These are eight requests of the flood, and the health check.
  expect(turn()).toHaveLength(9);
});

test('starts only 64 health checks per turn', () => {
  const { receive, turn, isIdle } = createStarts(1);
  receive('address', 150, '/healthz');
  expect([turn().length, turn().length, turn().length, isIdle()]).toEqual([64, 64, 22, true]);
});

test('starts a single search if many calls and searches arrive together after a quiet period', () => {
  const starts = createStarts(0.1);
  starts.receive('busy', 100);
  runFor(1_000, starts);
  starts.pass(10_000);
  starts.receive('busy', 250);
  starts.receive('searching', 16, '/v1/memory/search');
  expect(starts.turn().filter((project) => project === 'searching')).toHaveLength(1);
});

test("doesn't hold back searches after calls that waited less than 20 ms", () => {
  const starts = createStarts(0.1);
  starts.receive('busy', 20);
  starts.receive('searching', 16, '/v1/memory/search');
  runFor(5, starts);
  expect(starts.isIdle()).toBe(true);
});

test("starts a project's first 16 calls immediately, even while other searches are still held back", () => {
  const starts = createStarts(1);
  starts.receive('busy', 60);
  starts.turn();
  starts.receive('searching', 20, '/v1/memory/search');
  runFor(150, starts);
  starts.receive('new', 500);
  expect(starts.turn().filter((project) => project === 'new').length).toBeGreaterThanOrEqual(16);
});

test('starts searches immediately if only searches are waiting', () => {
  const { receive, turn } = createStarts(1);
  receive('searching', 2_000, '/v1/memory/search');
  turn();
  receive('other', 16, '/v1/memory/search');
  expect(turn().filter((project) => project === 'other')).toHaveLength(16);
});

test("a project's own waiting calls don't hold back its searches", () => {
  const { receive, turn } = createStarts(1);
  receive('busy', 1_000);
  turn();
  receive('busy', 16, '/v1/memory/search');
  expect(turn().length).toBeGreaterThan(16);
});

test('starts one search every 50 ms for another half second after calls had to wait', () => {
  const starts = createStarts(1);
  starts.receive('busy', 60);
  starts.turn();
  starts.receive('searching', 20, '/v1/memory/search');
  const startedAt = runFor(900, starts).flatMap(([project, at]) => (project === 'searching' ? [at] : []));
  expect(startedAt).toHaveLength(20);
  expect(startedAt.filter((at) => at < 450).length).toBeLessThanOrEqual(10);
  expect(starts.isIdle()).toBe(true);
});

test("doesn't look up which project a request belongs to while only a few requests arrive", () => {
  const { listener } = startFairly(() => undefined, {
    ownerOf: () => {
      throw new Error('must not be called');
    },
    nextTurn: (run) => run(),
  });
  const response = { req: { headers: {} } } as Parameters<typeof listener>[1];
  expect(() => listener(response.req, response)).not.toThrow();
});

test('waits to start requests until no new connections are being accepted', () => {
  const { accept, receive, turn } = createStarts(1);
  receive('one', 1);
  accept();
  expect(turn()).toEqual([]);
  receive('two', 1);
  accept();
  expect(turn()).toEqual([]);
  expect(turn()).toEqual(['one', 'two']);
});

test('starts waiting requests after 5 ms even if new connections keep arriving', () => {
  const { accept, receive, turn } = createStarts(1);
  receive('one', 1);
  const started = Array.from({ length: 6 }, () => {
    accept();
    return turn();
  });
  expect(started).toEqual([[], [], [], [], [], ['one']]);
});

test("time spent on accepting connections doesn't reduce the number of requests started", () => {
  const { accept, receive, turn } = createStarts(0.1);
  receive('flood', 1_000);
  expect(turn()).toHaveLength(16);
  for (let accepted = 0; accepted < 5; accepted += 1) {
    accept();
    expect(turn()).toEqual([]);
  }
  accept();
  expect(turn()).toHaveLength(17);
});

/**
 * A thread that sends a request on each of its connections. It wakes the test once all of them wait to be accepted, or
 * if one of them fails.
 */
const clients = `
  const { connect } = require('node:net');
  const { workerData: { port, connections, counts } } = require('node:worker_threads');
  let written = 0;
  const wake = () => {
    Atomics.store(counts, 0, 1);
    Atomics.notify(counts, 0);
  };
  for (let at = 0; at < connections; at += 1) {
    const socket = connect(port, '127.0.0.1').resume();
    socket.once('error', (error) => {
      wake();
      throw error;
    });
    socket.write('GET / HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n', () => {
      written += 1;
      if (written === connections) wake();
    });
  }
`;

test('accepts all waiting connections before it starts their requests', async () => {
  const connections = 100;
  let accepted = 0;
  const acceptedAtStart: number[] = [];
  const { listener, connectionAccepted } = startFairly(
    (_request, response) => {
      acceptedAtStart.push(accepted);
      response.end();
    },
    { ownerOf: () => '', now: () => 0 },
  );
  const server = createServer(listener).on('connection', () => {
    accepted += 1;
    connectionAccepted();
  });
  await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: connections }, resolve));
  const { port } = server.address() as AddressInfo;
  const counts = new Int32Array(new SharedArrayBuffer(4));
  const thread = new Worker(clients, { eval: true, workerData: { port, connections, counts } });
  // Block the event loop, so that no connection is accepted before all of them are waiting.
  expect(Atomics.wait(counts, 0, 0, 60_000)).not.toBe('timed-out');
  await once(thread, 'exit');
  await new Promise((resolve) => server.close(resolve));
  expect(acceptedAtStart).toEqual(Array(connections).fill(connections));
});
