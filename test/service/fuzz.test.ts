/**
 * Whatever comes in: a documented answer, no fault of ours, nothing of our inside in it, and the service lives on.
 *
 * The seed of a failing run stands in its message; `fc.assert(…, { seed, path })` or `seed` below repeats it.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import type { JsonObject } from '../../src/core/json.ts';
import { isObject, listOf, objectOf, textOf } from '../../src/core/json.ts';
import { describeApi } from '../../src/http/openapi.ts';
import type { TestGateway } from '../support/gateway.ts';
import { eventually, shareGateway } from '../support/gateway.ts';
import { fitting, nearlyFitting, resolveRefs } from '../support/schema-values.ts';
import type { RawRequest } from './raw-requests.ts';
import { rawRequests } from './raw-requests.ts';

const lent = shareGateway({});
const adminToken = 'test-admin-token-0123456789';

/** Stacks, places in the code or on the disk, SQL, secrets. Random input holds none of it. */
const inside =
  /\bat \S+ \(|\.[tj]s:\d+|node_modules|\/(?:home|root|tmp|usr|work|var|src)\/|\b(?:select|insert into|update|delete from) \w+|pg_|postgres|pglite|127\.0\.0\.1|localhost|undici|\[object |sk-gw-[a-z0-9]{8}-|key-(?:one|two|three|four|dead)|test-admin-token/i;

const goodChat = { model: 'one/echo', messages: [{ role: 'user', content: 'still there?' }] };

async function expectAlive({ call }: TestGateway): Promise<void> {
  const answer = await call('/v1/chat/completions', goodChat);
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('still there?')]);
}

describe('requests made from the interface description', () => {
  const document = objectOf(resolveRefs(describeApi(), describeApi()));
  const operations = Object.entries(objectOf(document.paths)).flatMap(([path, methods]) =>
    Object.entries(objectOf(methods)).map(([method, operation]) => ({
      title: `${method.toUpperCase()} ${path}`,
      path,
      method,
      operation: objectOf(operation),
    })),
  );

  it('200: the description needs no key, and is the one of the code', async () => {
    const answer = await fetch(`${lent().url}/openapi.json`);
    expect([answer.status, await answer.json()]).toEqual([200, describeApi()]);
  });

  it.each(operations)('$title: only answers that are described', async ({ path, method, operation }) => {
    const gateway = lent();
    if (path.startsWith('/provision')) await gateway.withProject('fuzz');
    const check = answerCheck(operation);
    await fc.assert(
      fc.asyncProperty(requestArbitrary(path, operation, gateway.key), async ({ address, headers, body }) => {
        const init = { method: method.toUpperCase(), headers, redirect: 'manual' as const, ...(body !== null && { body }) };
        await check(await fetch(gateway.url + address, init));
      }),
      { numRuns: 150, interruptAfterTimeLimit: 15_000, markInterruptAsFailure: false },
    );
    await expectAlive(gateway);
  });
});

interface MadeRequest {
  readonly address: string;
  readonly headers: Record<string, string>;
  readonly body: string | null;
}

const models = fc.oneof(
  fc.constantFrom(
    'one/echo',
    'three/echo',
    'standard',
    'auto',
    'one/fail-500',
    'one/refuse-422',
    'three/refuse-413',
    'dead/x',
    'one/garbage',
    'nobody/knows',
    '',
  ),
  fc.string({ unit: 'grapheme', maxLength: 20 }).map((name) => `one/${name}`),
);
const hints = {
  model: models,
  messages: fc.oneof(fc.constant(goodChat.messages), fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 3 })),
};

/** Text that a header may carry: any byte but control characters. */
const headerText = fc.string({
  unit: fc
    .integer({ min: 0x20, max: 0xff })
    .filter((code) => code !== 0x7f)
    .map((code) => String.fromCharCode(code)),
  maxLength: 300,
});
const addressText = fc
  .oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc.constantFrom('\u0000', 'a/b', '?', '#', ' ', "'; drop table calls; --"),
  )
  .filter((text) => !/^\.{1,2}$/.test(text))
  .map(encodeURIComponent);

function requestArbitrary(path: string, operation: JsonObject, key: string): fc.Arbitrary<MadeRequest> {
  const parameters = listOf(operation.parameters).map(objectOf);
  const ofPlace = (place: string): JsonObject[] => parameters.filter((parameter) => parameter.in === place);
  const values = (all: JsonObject[], wild: fc.Arbitrary<string>, encode: (text: string) => string, requiredKeys: string[]) =>
    fc.record(
      Object.fromEntries(
        all.map(({ name, schema }) => [
          String(name),
          fc.oneof(
            fitting(schema).map((value) => encode(String(value))),
            wild,
          ),
        ]),
      ),
      { requiredKeys },
    );
  const pathValues = values(
    ofPlace('path'),
    fc.oneof(addressText, fc.constantFrom('%E0%A4%A', '%zz', 'fuzz')),
    encodeURIComponent,
    ofPlace('path').map(({ name }) => String(name)),
  );
  const queryValues = values(ofPlace('query'), addressText, encodeURIComponent, []);
  const headerValues = values(
    ofPlace('header'),
    headerText,
    (text) =>
      Buffer.from(text)
        .toString('latin1')
        .replaceAll(/[^\x20-\xff]|\x7f/g, ' '),
    [],
  );
  const token = path.startsWith('/provision') ? adminToken : key;
  const authorization = fc.oneof(
    { weight: 12, arbitrary: fc.constant<string | null>(`Bearer ${token}`) },
    fc.constantFrom(null, 'Bearer x', `bearer  ${token}`, token.slice(1)),
  );
  const contentType = fc.oneof(
    { weight: 15, arbitrary: fc.constant('application/json') },
    fc.constantFrom('text/plain', 'application/x+json', '', 'multipart/form-data; boundary=x'),
  );
  return fc
    .record({ pathValues, queryValues, headerValues, authorization, contentType, body: bodyText(operation), project: fc.boolean() })
    .map((made) => {
      const places: Record<string, string> = {
        ...made.pathValues,
        ...(made.project && 'project' in made.pathValues && { project: 'fuzz' }),
      };
      const query = Object.entries(made.queryValues).map(([name, value]) => `${name}=${value}`);
      return {
        address: path.replaceAll(/\{(\w+)\}/g, (_, name: string) => places[name] ?? '') + (query.length > 0 ? `?${query.join('&')}` : ''),
        headers: {
          ...made.headerValues,
          ...(made.authorization !== null && { authorization: made.authorization }),
          ...(made.body !== null && { 'content-type': made.contentType }),
        },
        body: made.body,
      };
    });
}

/** Text of a body that fits, nearly fits, or is no JSON; null where the route takes none. */
function bodyText(operation: JsonObject): fc.Arbitrary<string | null> {
  if (operation.requestBody === undefined) return fc.constant(null);
  const { schema } = objectOf(objectOf(objectOf(operation.requestBody).content)['application/json']);
  const text = (value: unknown): string => JSON.stringify(value) ?? '';
  const fits = fitting(schema, hints).map(text);
  return fc.oneof(
    { weight: 5, arbitrary: fits },
    { weight: 5, arbitrary: nearlyFitting(schema, hints).map(text) },
    fc.tuple(fits, fc.nat(200)).map(([whole, end]) => whole.slice(0, end)),
    fc.constantFrom(
      '',
      '{}',
      'null',
      '\ufeff{}',
      '{"model":"one/echo","model":"two/echo"}',
      `${'['.repeat(20_000)}`,
      '{"a":1}x',
      "{'a':1}",
    ),
  );
}

/** Fails for an answer that the operation does not describe, and for what no answer may hold. */
function answerCheck(operation: JsonObject): (answer: Response) => Promise<void> {
  const described = objectOf(operation.responses);
  const shapes = new Map<unknown, z.ZodType>();
  const shapeOf = (schema: JsonObject): z.ZodType => {
    const shape = shapes.get(schema) ?? z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]); // The document is plain JSON.
    shapes.set(schema, shape);
    return shape;
  };
  return async (answer) => {
    const text = await answer.text();
    const { status } = answer;
    const range = `${Math.floor(status / 100)}XX`;
    const expected = described[status] ?? described[range];
    expect([status, text, isObject(expected)]).toEqual([status, text, true]);
    const { content, headers } = objectOf(expected);
    const type = answer.headers.get('content-type')?.split(';', 1)[0] ?? '';
    expect([status, text, Object.keys(objectOf(content))]).toEqual([status, text, expect.arrayContaining([type])]);
    const { schema } = objectOf(objectOf(content)[type]);
    if (type === 'application/json' && schema !== undefined) {
      const { error } = shapeOf(objectOf(schema)).safeParse(JSON.parse(text));
      expect([status, text, error?.issues ?? []]).toEqual([status, text, []]);
    }
    if (objectOf(headers)['x-gateway-call-id'] !== undefined) expect(answer.headers.get('x-gateway-call-id')).toMatch(/^[0-9a-f-]{36}$/);
    if (status >= 400) expect(text).not.toMatch(inside);
    // The vendors are the only thing that is down here.
    if (status >= 500) {
      const { error } = objectOf(JSON.parse(text));
      expect([status, textOf(objectOf(error).code) ?? objectOf(error).type]).toEqual([
        status,
        expect.stringMatching(/^(?:upstream_failed|api_error)$/),
      ]);
      expect([502, 503]).toContain(status);
    }
  };
}

describe('10,000 malformed requests over raw sockets', () => {
  const count = 10_000;
  const concurrency = 40;
  const patienceMs = 400;

  it('are answered below 500 or not at all; a good call is answered afterwards, and no socket is left', async () => {
    const gateway = await lent().withProject('sockets');
    const before = await settledSockets(gateway, concurrency);
    const seed = fc.sample(fc.integer(), 1)[0] ?? 0;
    const requests = fc.sample(rawRequests(gateway.key), { seed, numRuns: count });
    const statuses = new Map<string, number>();
    const queue = requests.entries();
    const port = Number(new URL(gateway.url).port);
    const startedAt = performance.now();
    const work = async (): Promise<void> => {
      for (const [index, request] of queue) {
        const said = await send(port, request, patienceMs);
        const found = [...said.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status = '']) => status);
        for (const status of found.length > 0 ? found : ['none']) statuses.set(status, (statuses.get(status) ?? 0) + 1);
        const wrong = found.filter((status) => !/^(?:100|200|400|401|404|408|413|415|417|431)$/.test(status));
        expect({ seed, index, wrong, said: wrong.length > 0 ? said : '' }).toEqual({ seed, index, wrong: [], said: '' });
        if (found.some((status) => status >= '400'))
          expect({ seed, index, said }).toEqual({ seed, index, said: expect.not.stringMatching(inside) });
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
    // All kinds were met: those that are refused by the parser, by us, and those that came through.
    expect([...statuses.keys()]).toEqual(expect.arrayContaining(['200', '400', '401', '404', '431', 'none']));
    expect(performance.now() - startedAt).toBeLessThan(40_000);
    await expectAlive(gateway);
    await eventually(async () => expect(sockets()).toBeLessThanOrEqual(before));
    expect(gateway.logs.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  }, 90_000);
});

function sockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name.startsWith('TCP')).length;
}

/** Sockets when all connections are open that a service keeps for later: to its vendors, and of this test's `fetch` to it. */
async function settledSockets({ call }: TestGateway, concurrency: number): Promise<number> {
  const calls = Array.from({ length: concurrency }, () => call('/v1/chat/completions', { ...goodChat, model: 'one/slow-200' }));
  for (const answer of await Promise.all(calls)) await answer.text();
  await sleep(50);
  return sockets();
}

/** What the service said on one connection until it closed or the client left. */
async function send(port: number, { bytes, cuts, leaves }: RawRequest, patienceMs: number): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  // A service that resets a connection full of nonsense is in its right.
  socket.on('error', () => undefined);
  const closed = once(socket, 'close').catch(() => undefined);
  let from = 0;
  for (const cut of [...cuts.filter((at) => at < bytes.length), bytes.length]) {
    if (cut > from && !socket.destroyed) socket.write(bytes.subarray(from, cut));
    from = Math.max(from, cut);
    if (cuts.length > 0) await new Promise(setImmediate);
  }
  if (leaves === 'end') socket.end();
  const patience = setTimeout(() => socket.destroy(), leaves === 'reset' ? 1 : leaves === 'wait' ? patienceMs / 20 : patienceMs);
  await closed;
  clearTimeout(patience);
  return Buffer.concat(pieces).toString('latin1');
}
