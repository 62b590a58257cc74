/**
 * Runs the protocol's conformance suite for both protocol versions. The `conformance-failures` files list what our
 * server doesn't support, with reasons. The test fails if something else fails, or if something in the list passes.
 */
import { spawn } from 'node:child_process';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { shareGateway } from '../support/gateway.ts';
import { addPerson, issueToken } from './people.ts';

const shared = shareGateway({ database: 'any' });
const root = join(import.meta.dirname, '../..');

/** Adds the token, because the suite cannot send it. */
let proxy: Server;

beforeAll(async () => {
  const gateway = shared();
  // We use several people, so that the suite's requests stay below the limit of each.
  const people = await Promise.all(Array.from({ length: 5 }, () => addPerson(gateway, [gateway.project])));
  const tokens = await Promise.all(people.map((person) => issueToken(gateway, person)));
  let requests = 0;
  const { hostname, port } = new URL(gateway.url);
  proxy = createServer((request, response) => {
    requests += 1;
    const headers = { ...request.headers, authorization: `Bearer ${tokens[requests % tokens.length]}` };
    const sent = httpRequest({ hostname, port, path: request.url, method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    sent.on('error', () => response.destroy());
    response.on('close', () => sent.destroy());
    request.pipe(sent);
  });
  await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening));
});

afterAll(async () => {
  const closed = new Promise((done) => proxy.close(done));
  proxy.closeAllConnections();
  await closed;
});

test.each(['2025-11-25', '2026-07-28'])('meets the requirements of the MCP specification, revision %s', async (revision) => {
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`;
  const program = join(root, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
  const failures = join(import.meta.dirname, `conformance-failures-${revision}.yaml`);
  const suite = spawn(process.execPath, [program, 'server', '--url', url, '--requirements', revision, '--expected-failures', failures], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const output: string[] = [];
  suite.stdout.setEncoding('utf8').on('data', (text: string) => output.push(text));
  const status = await new Promise((ended) => suite.on('close', ended));
  expect(status === 0 ? '' : output.join('')).toBe('');
});
