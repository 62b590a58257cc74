/** Generates requests from the OpenAPI document, and checks that responses match it. */
import { expect } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import type { JsonObject } from '../../src/core/json/narrow.ts';
import { asArray, asObject, asString, isObject } from '../../src/core/json/narrow.ts';
import { fitting, nearlyFitting } from '../support/schema-values.ts';

const adminToken = 'test-admin-token-0123456789';

/** Matches stack traces, positions in code or on disk, SQL and secrets. Random input contains none of these. */
export const inside =
  /\bat \S+ \(|\.[tj]s:\d+|node_modules|\/(?:home|root|tmp|usr|work|var|src)\/|\b(?:select|insert into|update|delete from) \w+|pg_|postgres|pglite|127\.0\.0\.1|localhost|undici|\[object |sk-gw-[a-z0-9]{8}-|key-(?:one|two|three|four|dead)|test-admin-token/i;

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
  time_zone: fc.constantFrom('Europe/Berlin', 'Asia/Kolkata', 'Mars/Base'),
  model: models,
  messages: fc.oneof(fc.constant([{ role: 'user', content: 'hi' }]), fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 3 })),
};

/** Text that is valid in a header, i.e. any byte except control characters. */
const headerText = fc.string({
  unit: fc
    .integer({ min: 0x20, max: 0xff })
    .filter((code) => code !== 0x7f)
    .map((code) => String.fromCharCode(code)),
  maxLength: 300,
});
/** Clients drop such a segment from a path. */
const isDotSegment = (text: string): boolean => /^\.{1,2}$/.test(text);
const addressText = fc
  .oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc.constantFrom('\u0000', 'a/b', '?', '#', ' ', "'; drop table calls; --"),
  )
  .filter((text) => !isDotSegment(text))
  .map(encodeURIComponent);

/** Requests for one operation. `key` is a valid key. */
export function requestsOf(path: string, operation: JsonObject, key: string): fc.Arbitrary<MadeRequest> {
  const parameters = asArray(operation.parameters).map(asObject);
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
  ).filter((made) => !Object.values(made).some(isDotSegment));
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

/** The text of a body that is valid, almost valid, or not JSON. Null if the route has no body. */
function bodyText(operation: JsonObject): fc.Arbitrary<string | null> {
  if (operation.requestBody === undefined) return fc.constant(null);
  const { schema } = asObject(asObject(asObject(operation.requestBody).content)['application/json']);
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

/**
 * Fails if the operation doesn't describe the response, or if the response contains something that no response may
 * contain.
 */
export function answerCheck(operation: JsonObject): (answer: Response) => Promise<void> {
  const described = asObject(operation.responses);
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
    const { content, headers } = asObject(expected);
    const type = answer.headers.get('content-type')?.split(';', 1)[0] ?? '';
    expect([status, text, Object.keys(asObject(content))]).toEqual([
      status,
      text,
      expect.arrayContaining([Object.keys(asObject(content)).includes('audio/*') ? type.replace(/^audio\/.*/, 'audio/*') : type]),
    ]);
    const { schema } = asObject(asObject(content)[type]);
    if (type === 'application/json' && schema !== undefined) {
      const { error } = shapeOf(asObject(schema)).safeParse(JSON.parse(text));
      expect([status, text, error?.issues ?? []]).toEqual([status, text, []]);
    }
    if (asObject(headers)['x-gateway-call-id'] !== undefined) expect(answer.headers.get('x-gateway-call-id')).toMatch(/^[0-9a-f-]{36}$/);
    if (status >= 400) expect(text).not.toMatch(inside);
    // Nothing but the vendors is down in this test.
    if (status >= 500) {
      const { error } = asObject(JSON.parse(text));
      expect([status, asString(asObject(error).code) ?? asObject(error).type]).toEqual([
        status,
        expect.stringMatching(/^(?:upstream_failed|upstream_error|bad_upstream_response|api_error)$/),
      ]);
      expect([502, 503]).toContain(status);
    }
  };
}
