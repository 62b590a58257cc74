import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect, createServer as createNetServer } from 'node:net';
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from '@jest/globals';
import { closeServer, listenForMany } from '../../src/http/listen.ts';

/** Only Linux distributes connections among the sockets of a port. */
const testOnLinux = process.platform === 'linux' ? test : test.skip;
const connections = 100;

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

const options = {
  closeUnusedConnections: () => undefined,
  drainTimeoutMs: 60_000,
  onDrainTimeout: () => undefined,
  abortTimeoutMs: 60_000,
};
const servers: Server[] = [];

afterEach(() => Promise.all(servers.splice(0).map((server) => closeServer(server, options))));

async function start(respond: (response: ServerResponse) => void) {
  const server = createServer((_request, response) => respond(response));
  servers.push(server);
  const port = Number(new URL(await listenForMany(server, '127.0.0.1', 0)).port);
  return { server, port };
}

testOnLinux('accepts several waiting connections in one turn of the event loop', async () => {
  const { server, port } = await start((response) => response.end());
  let turns = 0;
  let isNewTurn = true;
  server.on('connection', () => {
    if (!isNewTurn) return;
    isNewTurn = false;
    turns += 1;
    setImmediate(() => {
      isNewTurn = true;
    });
  });
  const counts = new Int32Array(new SharedArrayBuffer(4));
  const thread = new Worker(clients, { eval: true, workerData: { port, connections, counts } });
  // Block the event loop, so that no connection is accepted before all of them are waiting.
  expect(Atomics.wait(counts, 0, 0, 60_000)).not.toBe('timed-out');
  await once(thread, 'exit');
  expect(turns).toBeGreaterThan(0);
  expect(turns).toBeLessThan(connections / 2);
});

test('refuses to listen on a port that another server is using', async () => {
  const { port } = await start((response) => response.end());
  await expect(listenForMany(createServer(), '127.0.0.1', port)).rejects.toMatchObject({ code: 'EADDRINUSE' });
  const other = createNetServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const address = other.address();
  const used = typeof address === 'object' ? address?.port : undefined;
  await expect(listenForMany(createServer(), '127.0.0.1', used ?? 0)).rejects.toMatchObject({ code: 'EADDRINUSE' });
  other.close();
});

test('waits for all open responses before it closes, but accepts no new connections', async () => {
  const responses: ServerResponse[] = [];
  const all = Promise.withResolvers<void>();
  const { server, port } = await start((response) => {
    if (responses.push(response) === connections) all.resolve();
  });
  const othersClosed = Promise.withResolvers<void>();
  let open = connections;
  for (let at = 0; at < connections; at += 1) {
    const socket = connect(port, '127.0.0.1').resume();
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    socket.once('close', () => {
      open -= 1;
      if (open === 1) othersClosed.resolve();
    });
  }
  await all.promise;
  let isClosed = false;
  const closed = closeServer(server, options).then(() => {
    isClosed = true;
  });
  for (let at = 0; at < 20; at += 1) {
    await expect(once(connect(port, '127.0.0.1'), 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  }
  for (const response of responses.slice(1)) response.end();
  await othersClosed.promise;
  expect(isClosed).toBe(false);
  responses[0]?.end();
  await closed;
});
