/**
 * Sends requests with odd targets, `Expect` headers, pipelining and half-closes over one connection. Each request has
 * to get its own response, in order and in one piece, and errors can't be HTML.
 *
 * If a test fails, it prints the seed and path. Pass them to `fc.assert` to reproduce it.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isExhaustive } from '../support/exhaustive.ts';
import { shareGateway, type TestGateway } from '../support/gateway.ts';
import { paths, providersYaml, vendors } from './dialects-gateway.ts';

const lent = shareGateway({ database: 'any', yaml: providersYaml });

interface Asked {
  readonly kind: 'echo' | 'refused' | 'health' | 'odd';
  readonly target: string;
  readonly method: string;
  readonly isStream: boolean;
  readonly isSlow: boolean;
  readonly expects: boolean;
}

const uriCharacter = fc.constantFrom(...'/[]:@?#%.*a1-;=&~|{}\\^"<>`');
const oddTarget = fc.oneof(
  fc.constantFrom(
    'http://[',
    'http://[::1',
    'https://',
    'http:///',
    'http://a:b:c/',
    'http://%/',
    'a:b',
    '*',
    '?',
    '//',
    '//[',
    '//[#',
    '/%',
    '/%zz',
  ),
  fc.constantFrom(
    'http://gateway.test/nowhere',
    '//v1/nowhere',
    '/v1//nowhere',
    '//\u00e2\u0080\u00a6',
    '//v1/chat/completions#',
    '/#[',
    '/ ',
  ),
  fc.array(uriCharacter, { minLength: 1, maxLength: 12 }).map((parts) => parts.join('')),
  fc.array(uriCharacter, { maxLength: 12 }).map((parts) => `http://${parts.join('')}`),
  fc.array(uriCharacter, { maxLength: 12 }).map((parts) => `//${parts.join('')}`),
);
const asked: fc.Arbitrary<Asked> = fc.record({
  kind: fc.constantFrom('echo', 'echo', 'refused', 'health', 'odd', 'odd'),
  target: oddTarget,
  method: fc.constantFrom('GET', 'POST', 'OPTIONS', 'DELETE'),
  isStream: fc.boolean(),
  isSlow: fc.boolean(),
  expects: fc.boolean(),
});
const connection = fc.record({
  requests: fc.array(asked, { minLength: 1, maxLength: 5 }),
  halfCloses: fc.boolean(),
  pieces: fc.constantFrom(1, 1, 2, 7),
});

function toBytes({ key }: TestGateway, { kind, target, method, isStream, isSlow, expects }: Asked, mark: string): string {
  const expectation = expects ? ['expect: 100-continue'] : [];
  const common = ['host: gateway.test', `authorization: Bearer ${key}`, ...expectation];
  if (kind === 'health') return ['GET /healthz HTTP/1.1', ...common, '', ''].join('\r\n');
  if (kind === 'odd') return [`${method} ${target} HTTP/1.1`, ...common, 'content-length: 2', '', '{}'].join('\r\n');
  const model = kind === 'refused' ? 'no/such' : `${vendors.chat}/${isSlow ? 'slow-30+echo' : 'echo'}`;
  const body = JSON.stringify({ model, stream: isStream, messages: [{ role: 'user', content: mark }] });
  const head = [`POST ${paths.chat} HTTP/1.1`, ...common, 'content-type: application/json', `content-length: ${body.length}`];
  return [...head, '', body].join('\r\n');
}

/** Sends the bytes in `pieces` writes, and returns everything received until the service closes the connection. */
async function converse(
  { url }: TestGateway,
  bytes: string,
  { halfCloses, pieces }: { halfCloses: boolean; pieces: number },
): Promise<string> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  socket.on('error', () => undefined);
  const ended = Promise.race([once(socket, 'end'), once(socket, 'close')]).catch(() => undefined);
  const all = Buffer.from(bytes, 'latin1');
  const size = Math.ceil(all.length / pieces);
  for (let from = 0; from < all.length; from += size) {
    socket.write(all.subarray(from, from + size));
    await new Promise(setImmediate);
  }
  if (halfCloses) socket.end();
  await ended;
  socket.destroy();
  return Buffer.concat(received).toString('latin1');
}

interface Said {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Parses all responses except 1xx. Throws if a response is incomplete or if some bytes don't belong to a response. */
function parseResponses(bytes: string): Said[] {
  const responses: Said[] = [];
  for (let rest = bytes; rest !== ''; ) {
    const head = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest);
    if (!head) throw new Error(`not the head of a response: ${JSON.stringify(rest.slice(0, 200))}`);
    rest = rest.slice(head[0].length);
    const status = Number(head[1]);
    if (status < 200) continue;
    const lines = (head[2] ?? '').split('\r\n').filter((line) => line !== '');
    const headers = new Map(
      lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
    );
    let body = '';
    if (headers.get('transfer-encoding') === 'chunked') {
      for (let size = -1; size !== 0; ) {
        const line = /^([0-9a-f]+)\r\n/i.exec(rest);
        if (!line) throw new Error(`not a chunk: ${JSON.stringify(rest.slice(0, 200))}`);
        size = Number.parseInt(line[1] ?? '', 16);
        const start = line[0].length;
        if (rest.slice(start + size, start + size + 2) !== '\r\n')
          throw new Error(`no end of a chunk: ${JSON.stringify(rest.slice(0, 200))}`);
        body += rest.slice(start, start + size);
        rest = rest.slice(start + size + 2);
      }
    } else {
      const length = Number(headers.get('content-length') ?? 0);
      body = rest.slice(0, length);
      if (body.length < length) throw new Error('the body is incomplete');
      rest = rest.slice(length);
    }
    responses.push({ status, headers, body });
  }
  return responses;
}

/**
 * Reports whether Node rejected the bytes as invalid HTTP and closed the connection, possibly before earlier responses
 * were sent.
 */
const isParserRefusal = ({ status, headers, body }: Said): boolean =>
  status === 400 && headers.get('connection') === 'close' && body === 'the request is not valid HTTP\n';

function expectOwnResponse({ status, headers, body }: Said, { kind, isStream }: Asked, mark: string): void {
  expect(headers.get('content-type') ?? '').not.toContain('html');
  expect(body).not.toMatch(/HTTP\/1\.1|<html|<!doctype/i);
  if (kind === 'health') expect([status, body]).toEqual([200, '{"status":"ok"}']);
  if (kind === 'refused') expect([status, JSON.parse(body)]).toMatchObject([400, { error: { code: 'no_route' } }]);
  if (kind === 'echo') {
    expect(status).toBe(200);
    const text = isStream ? [...body.matchAll(/"content":"([^"]*)"/g)].map(([, part]) => part).join('') : body;
    expect(text).toContain(`You said: ${mark}`);
    if (isStream) expect(body).toMatch(/data: \[DONE\]\n\n$/);
  }
  if (kind === 'odd' && status >= 400) expect(headers.get('content-type')).toMatch(/^(?:application\/json|text\/plain; charset=utf-8)$/);
}

async function check(
  gateway: TestGateway,
  { requests, halfCloses, pieces }: typeof connection extends fc.Arbitrary<infer Value> ? Value : never,
) {
  const marks = requests.map((_, index) => `mark${index}mark`);
  const sent = requests.map((request, index) => toBytes(gateway, request, marks[index] ?? ''));
  // Without a half-close, the service would keep the connection open, so we add a request that closes it.
  const last = halfCloses ? '' : 'GET /healthz HTTP/1.1\r\nhost: gateway.test\r\nconnection: close\r\n\r\n';
  const responses = parseResponses(await converse(gateway, sent.join('') + last, { halfCloses, pieces }));
  const hasOdd = requests.some(({ kind }) => kind === 'odd');
  for (const [index, response] of responses.entries()) {
    const request = requests[index];
    if (hasOdd && index === responses.length - 1 && isParserRefusal(response)) return;
    if (request) expectOwnResponse(response, request, marks[index] ?? '');
  }
  expect(responses.length).toBe(requests.length + (halfCloses ? 0 : 1));
}

it.each(['http://[', 'http://[/healthz', 'http://', '//[#', '/%', '//', '//\u00e2\u0080\u00a6', '*'])(
  "doesn't return HTML for a request with the unusual target %s",
  async (target) => {
    const gateway = lent();
    for (const method of ['GET', 'POST', 'OPTIONS'])
      for (const halfCloses of [false, true]) {
        const request: Asked = { kind: 'odd', target, method, isStream: false, isSlow: false, expects: false };
        await check(gateway, { requests: [request], halfCloses, pieces: 1 });
      }
  },
);

it("doesn't send 100 Continue in the middle of another response", async () => {
  const slow: Asked = { kind: 'echo', target: '', method: 'POST', isStream: false, isSlow: true, expects: false };
  for (const halfCloses of [true, false])
    for (const isStream of [true, false]) {
      const requests = [
        slow,
        { ...slow, isSlow: false, isStream, expects: true },
        { ...slow, kind: 'refused' as const, expects: true },
        slow,
      ];
      await check(lent(), { requests, halfCloses, pieces: 1 });
    }
});

it('sends the right response to every pipelined request', async () => {
  const gateway = lent();
  await fc.assert(
    fc.asyncProperty(connection, (made) => check(gateway, made)),
    { numRuns: isExhaustive ? 3_000 : 300 },
  );
  expect(gateway.logs.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});

it.each([
  ['GET /v1/models', ''],
  ['requests with Expect', 'expect: 100-continue\r\n'],
])('closes a connection if more than 32 requests are queued behind a slow one: %s', async (_name, header) => {
  const gateway = lent();
  const slow = toBytes(gateway, { kind: 'echo', target: '', method: 'POST', isStream: false, isSlow: true, expects: false }, 'first');
  const request = `GET /v1/models HTTP/1.1\r\nhost: gateway.test\r\nauthorization: Bearer ${gateway.key}\r\n${header}\r\n`;
  expect(await converse(gateway, slow + request.repeat(1_000), { halfCloses: false, pieces: 1 })).toBe('');
  const last = request.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n');
  const answered = parseResponses(await converse(gateway, slow + request.repeat(31) + last, { halfCloses: false, pieces: 1 }));
  expect(answered.map(({ status }) => status)).toEqual(Array(33).fill(200));
});
