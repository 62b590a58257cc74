/**
 * Runs `npm run bench` with a few calls. We check that the programs start, that all kinds of calls are counted and
 * stored, and that the results are complete.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { imageFlags } from '../../scripts/bench/gateway.js';
import { createMessageReader, createNumbered } from '../../scripts/bench/http-messages.js';
import { medianInterval } from '../../scripts/bench/report.js';
import { heapFlags } from '../../src/service/cluster.ts';
import { readDockerfile } from '../support/dockerfile.ts';
import { root } from '../support/gateway-process.ts';
import { describePostgres } from '../support/postgres.ts';
import { run } from '../support/run.ts';

const limitMs = 900_000;

it('runs benchmarks with the same Node flag as the image and the cluster processes', () => {
  expect(readDockerfile().entrypoint).toEqual(['node', ...heapFlags, 'src/main.ts']);
  expect(imageFlags(root)).toEqual(heapFlags);
});

describePostgres('the benchmark', () => {
  it(
    'reports how the gateway compares with the baseline',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'gateway-bench-test-'));
      try {
        const json = join(folder, 'rows.json');
        const options = ['--calls', '20', '--starts', '1', '--rounds', '1', '--warm-up', '0', '--json', json];
        const env = { ...process.env, DATABASE_URL: process.env.GATEWAY_TEST_POSTGRES_URL ?? '' };
        const said = await run(process.execPath, [join(root, 'scripts', 'bench.js'), 'stream', 'failover', ...options], {
          cwd: root,
          env,
          timeoutMs: limitMs,
        });
        expect(said).toMatch(/50-chunk stream at once/);
        const rows: { scenario: string; target: string; calls: number; vendorCalls: number; toFloor: number }[] = JSON.parse(
          await readFile(json, 'utf8'),
        );
        expect(rows.map(({ scenario, calls }) => [scenario, calls])).toEqual(
          ['stream', 'stream', 'failover', 'failover'].map((scenario) => [scenario, 20]),
        );
        const gateway = rows.filter(({ target }) => target !== 'floor');
        expect(gateway.map(({ vendorCalls }) => vendorCalls)).toEqual([1, 2]);
        if (process.platform === 'linux') expect(gateway.every(({ toFloor }) => toFloor > 0)).toBe(true);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
    limitMs,
  );
});

it.each([
  [5, null],
  [9, [2, 8]],
  [27, [8, 20]],
])('computes the confidence interval of the median of %d values', (count, interval) => {
  const values = Array.from({ length: count }, (_, index) => count - index);
  expect(medianInterval(values)).toEqual(interval);
});

it.each([
  ['in one piece', 1_000],
  ['byte by byte', 1],
  ['in pieces of seven bytes', 7],
])('reads HTTP messages that arrive %s', (_title, pieceBytes) => {
  const read: string[] = [];
  let body = '';
  const take = createMessageReader({
    data: (bytes) => {
      body += bytes.toString();
    },
    end: ({ first }) => {
      read.push(`${first} | ${body}`);
      body = '';
    },
  });
  const messages = [
    'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
    'HTTP/1.1 204 No Content\r\n\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\n0\n\r\n0\r\n\r\n',
  ];
  for (const message of messages) {
    const bytes = Buffer.from(message);
    for (let at = 0; at < bytes.length; at += pieceBytes) take(bytes.subarray(at, at + pieceBytes));
  }
  expect(read).toEqual(['HTTP/1.1 200 OK | hello', 'HTTP/1.1 204 No Content | ', 'HTTP/1.1 200 OK | 3\r\nabc\r\n2\r\n0\n\r\n0\r\n\r\n']);
});

it("fills every placeholder in a request with the request's number", () => {
  const message = createNumbered('ä ########## and ##########');
  message.setNumber(42);
  expect(message.bytes.toString()).toBe('ä 0000000042 and 0000000042');
});
