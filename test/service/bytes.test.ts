/** Compares requests to the vendor and its responses byte for byte. */
import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { TestGateway } from '../support/gateway.ts';
import { withGateway } from '../support/gateway.ts';

/** JSON text with unusual numbers, escapes, member order and white space. */
const space = fc.constantFrom('', ' ', '\n', '\t', '  \r\n ');
const number = fc.constantFrom('0', '-0', '1.0', '1e5', '1E+2', '12345678901234567890', '0.1000', '-3.25e-7');
const key = fc
  .oneof(fc.string({ maxLength: 8 }), fc.constantFrom('temperature', 'metadata_', 'caf\u00e9', 'a"b\\c'))
  .map((text) => `x${text}`);
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }).map((value) => JSON.stringify(value)),
  fc.constantFrom('"\\u0041\\/\\n"', '"\\ud83d\\ude00"', '"\u00e9\u{1f600}"'),
);
const value: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    number,
    text,
    fc.constantFrom('true', 'false', 'null'),
    fc.tuple(fc.array(tie('value'), { maxLength: 3 }), space).map(([items, gap]) => `[${gap}${items.join(`${gap},${gap}`)}${gap}]`),
    fc.tuple(fc.array(fc.tuple(key, tie('value')), { maxLength: 3 }), space).map(([members, gap]) => objectText(members, gap)),
  ),
})).value;

function objectText(members: readonly (readonly [string, string])[], gap: string): string {
  return `{${gap}${members.map(([name, json]) => `${JSON.stringify(name)}${gap}:${gap}${json}`).join(`${gap},${gap}`)}${gap}}`;
}

/** A chat body with random members around those that the gateway reads; `%MODEL%` is replaced by the model. */
const chatBody = fc
  .tuple(fc.uniqueArray(fc.tuple(key, value), { maxLength: 5, selector: ([name]) => name }), fc.nat(5), space, value)
  .map(([members, place, gap, content]) => {
    const all: (readonly [string, string])[] = [...members];
    all.splice(place, 0, ['messages', `[{"role":"user","content":"hi","x":${content}}]`]);
    all.splice(place + 1, 0, ['model', '%MODEL%']);
    return objectText(all, gap);
  });

async function sent(gateway: TestGateway, path: string, body: string): Promise<string> {
  gateway.vendor.clear();
  const answer = await gateway.call(path, body);
  expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)]);
  return gateway.vendor.requests()[0]?.body.toString('utf8') ?? '';
}

it('forwards the body unchanged except for the model', () =>
  withGateway({ database: 'any' }, async (gateway) => {
    await fc.assert(
      fc.asyncProperty(chatBody, async (body) => {
        expect(await sent(gateway, '/v1/chat/completions', body.replace('%MODEL%', '"one/echo"'))).toBe(body.replace('%MODEL%', '"echo"'));
        const messagesBody = `{"max_tokens" :1e2,${body.slice(1)}`;
        expect(await sent(gateway, '/v1/messages', messagesBody.replace('%MODEL%', '"three/echo"'))).toBe(
          messagesBody.replace('%MODEL%', '"echo"'),
        );
      }),
      { numRuns: 100 },
    );
  }));

it('adds only stream_options.include_usage to a streamed chat request', () =>
  withGateway({ database: 'any' }, async (gateway) => {
    const rest = '"messages":[{"role":"user","content":"\\u0041 1.0"}],"seed":12345678901234567890';
    const cases: [string, string][] = [
      [`{"model":"one/echo","stream":true,${rest}}`, `{"stream_options":{"include_usage":true},"model":"echo","stream":true,${rest}}`],
      [
        `{"model":"one/echo","stream":true,"stream_options":null,${rest}}`,
        `{"model":"echo","stream":true,"stream_options":{"include_usage":true},${rest}}`,
      ],
      [
        `{"model":"one/echo","stream":true,"stream_options":{},${rest}}`,
        `{"model":"echo","stream":true,"stream_options":{"include_usage":true},${rest}}`,
      ],
      [
        `{"model":"one/echo","stream":true,"stream_options":{ "x" : 1.0, "include_usage":false},${rest}}`,
        `{"model":"echo","stream":true,"stream_options":{ "x" : 1.0, "include_usage":true},${rest}}`,
      ],
      [`{"stream":true,${rest}}`, `{"model":"echo","stream_options":{"include_usage":true},"stream":true,${rest}}`],
    ];
    for (const [body, expected] of cases) expect(await sent(gateway, '/v1/chat/completions', body)).toBe(expected);
  }));

it("returns the vendor's response byte for byte, plain and streamed", () =>
  withGateway({ database: 'any' }, async (gateway) => {
    for (const [path, provider] of [
      ['/v1/chat/completions', 'one'],
      ['/v1/messages', 'three'],
    ] as const) {
      for (const model of ['numbers', 'crlf+long-50', 'tiny-bytes+long-10', 'no-done+echo', 'big-300']) {
        for (const stream of [false, true]) {
          const asking = stream && provider === 'one' ? { stream_options: { include_usage: true } } : {};
          const body = { model: `${provider}/${model}`, max_tokens: 9, stream, messages: [{ role: 'user', content: 'hi' }], ...asking };
          const through = await gateway.call(path, body);
          const request = gateway.vendor.requests().at(-1);
          const direct = await fetch(gateway.vendor.url + path, {
            method: 'POST',
            headers: { authorization: 'Bearer x', 'x-api-key': 'x', 'anthropic-version': '2023-06-01', 'content-type': 'application/json' },
            body: request?.body.toString('utf8') ?? '',
          });
          expect(withoutIds(await through.text())).toBe(withoutIds(await direct.text()));
          expect(through.headers.get('content-type')).toBe(stream ? 'text/event-stream' : direct.headers.get('content-type'));
        }
      }
    }
  }));

/** Removes the numbers that the vendor puts into its responses. Otherwise equal requests get equal responses. */
function withoutIds(text: string): string {
  return text.replace(/("id":\s*"[a-z]+[-_])[^"]*"/g, '$1"');
}

it('forwards only allowed headers to the vendor', () =>
  withGateway({ database: 'any' }, async (gateway) => {
    const secret = {
      'x-gateway-source': 'app',
      'x-gateway-memory-subject': 'ada',
      cookie: 'a=b',
      'x-other': '1',
      'openai-organization': 'o',
    };
    const passed = { 'openai-beta': 'b1', 'idempotency-key': 'i1' };
    const other = { 'anthropic-beta': 'a1', 'anthropic-version': '2023-06-01' };
    await gateway.call('/v1/chat/completions', { model: 'one/echo', messages: [] }, { ...secret, ...other, ...passed });
    const headers = gateway.vendor.requests()[0]?.headers ?? {};
    expect(headers).toMatchObject({
      ...passed,
      authorization: 'Bearer key-one',
      'accept-encoding': 'identity',
      'content-type': 'application/json',
    });
    for (const name of Object.keys({ ...secret, ...other })) expect(headers[name]).toBeUndefined();
    const own = { 'anthropic-version': '2024-01-01', 'anthropic-beta': 'a1' };
    await gateway.call('/v1/messages', { model: 'three/echo', max_tokens: 1, messages: [] }, { ...own, 'openai-beta': 'b1' });
    expect(gateway.vendor.requests()[1]?.headers).toMatchObject({ 'x-api-key': 'key-three', ...own });
    for (const name of ['authorization', 'openai-beta']) expect(gateway.vendor.requests()[1]?.headers[name]).toBeUndefined();
  }));
