/**
 * Tests that the demo vendor doesn't generate a stream faster than the client reads it, and stops when the client
 * disconnects.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, test } from '@jest/globals';
import { openai } from '../../../src/demo-vendor/errors.ts';
import { parseScript } from './scripts.ts';
import { writeScripted } from './write-scripted.ts';

const event = `data: ${'x'.repeat(16 * 1024)}\n\n`;
/** Larger than the socket buffers of any machine. */
const maxEvents = 4_000;

test.each(['echo', 'crlf'])('pauses the stream for a slow client and ends it for a disconnected one (%s)', async (model) => {
  let made = 0;
  let ended = false;
  function* endless(): Iterable<string> {
    try {
      for (;;) {
        made += 1;
        // The stream ignores backpressure, and would never end.
        if (made > maxEvents) throw new Error('generated more events than the socket buffers hold');
        yield event;
      }
    } finally {
      ended = true;
    }
  }
  const stream = { opening: [], deltas: endless(), closing: [] };
  let delivery: Promise<void> = Promise.resolve();
  const server = createServer((_request, response) => {
    delivery = writeScripted(response, {
      outgoing: { kind: 'stream', stream },
      script: parseScript(model),
      family: openai,
      paceMs: 0,
      headers: {},
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').pause();
  try {
    socket.write('GET / HTTP/1.1\r\nhost: vendor\r\n\r\n');
    await untilUnchanged(() => made);
    expect(made).toBeGreaterThan(0);
    expect(ended).toBe(false);
    socket.destroy();
    await delivery;
    expect(ended).toBe(true);
  } finally {
    socket.destroy();
    server.close();
    await once(server, 'close');
  }
});

/** Waits until the number is above 0 and doesn't change any more, for many iterations of the event loop. */
async function untilUnchanged(read: () => number): Promise<void> {
  for (let last = 0, still = 0; last === 0 || still < 2_000; ) {
    still = read() === last ? still + 1 : 0;
    last = read();
    await new Promise((resolve) => setImmediate(resolve));
  }
}
