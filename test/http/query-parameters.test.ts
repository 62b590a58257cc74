/**
 * Sends invalid values in every query parameter that the OpenAPI document describes, and parameters that no route
 * knows.
 */
import { expect, test } from '@jest/globals';
import { asArray, asObject, asString, type JsonObject } from '../../src/core/json/narrow.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { shareGateway } from '../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const document = describeApi();

interface Parameter {
  readonly method: string;
  readonly path: string;
  readonly name: string;
  readonly schema: JsonObject;
}

const resolve = (part: JsonObject): JsonObject => {
  const name = asString(part.$ref)?.split('/').at(-1);
  return name === undefined ? part : asObject(asObject(asObject(document.components).parameters)[name]);
};

const parameters: readonly Parameter[] = Object.entries(asObject(document.paths)).flatMap(([path, methods]) =>
  Object.entries(asObject(methods)).flatMap(([method, operation]) =>
    asArray(asObject(operation).parameters)
      .map((part) => resolve(asObject(part)))
      .filter((parameter) => parameter.in === 'query')
      .map(({ name, schema }) => ({ method, path, name: String(name), schema: asObject(schema) })),
  ),
);

/** Returns encoded values. `&` repeats the parameter. */
function invalidValues({ type, enum: values, format, minimum, maximum, minLength, maxLength, anyOf }: JsonObject): string[] {
  if (type === 'integer') {
    const outside = [Number(minimum) - 1, ...(maximum === undefined ? [] : [Number(maximum) + 1])].map(String);
    return ['', 'many', '-1', '1.5', '1.0', '1e2', '0x10', '%205', '%2B5', '9'.repeat(20), '1&1', ...outside];
  }
  if (type === 'boolean') return ['', '1', 'yes', 'TRUE', 'true&true'];
  if (values !== undefined)
    return [
      '',
      'bogus',
      asArray(values)
        .slice(0, 1)
        .flatMap((value) => [value, value])
        .join('&'),
    ];
  if (format === 'uuid') return ['', 'bogus', '0'.repeat(36)];
  if (format === 'date-time') return ['', 'yesterday', '2026-11-20', '2026-11-20T10:00:00', '2026-13-01T00:00:00Z'];
  if (anyOf !== undefined) return ['', 'bogus', `${'x'.repeat(300)}@example.com`];
  return [...(minLength === undefined ? [] : ['']), ...(maxLength === undefined ? [] : ['x'.repeat(Number(maxLength) + 1)]), 'a&a'];
}

function send(method: string, path: string, query: string): Promise<Response> {
  const address = `${path.replace('{project}', gateway().project)}?${query}`;
  if (path.startsWith('/provision')) return gateway().admin(method.toUpperCase(), address);
  const headers = { authorization: `Bearer ${gateway().key}` };
  return fetch(gateway().url + address, { method: method.toUpperCase(), headers });
}

test.each(parameters.map(({ method, path, name, schema }) => [method, path, name, schema] as const))(
  '%s %s rejects invalid values of %s',
  async (method, path, name, schema) => {
    const accepted: string[] = [];
    const values = invalidValues(schema);
    for (const value of values) {
      const query = value
        .split('&')
        .map((part) => `${name}=${part}`)
        .join('&');
      const response = await send(method, path, query);
      const body = await response.text();
      if (response.status !== 400 || !body.includes(`"message":"${name}: `)) accepted.push(`${query}: ${response.status} ${body}`);
    }
    expect(accepted).toEqual([]);
    expect(values.length).toBeGreaterThan(0);
  },
);

test('ignores unknown query parameters on routes that SDKs call, and on routes without parameters', async () => {
  for (const path of ['/v1/models', '/usage/me', '/provision/teams', '/provision/teams/{project}/keys']) {
    expect((await send('get', path, 'beta=true&limits=x&source[]=')).status).toBe(200);
  }
});

test.each(parameters.filter(({ path }) => path.startsWith('/provision')).map(({ method, path, name }) => [method, path, name] as const))(
  '%s %s rejects misspellings of %s',
  async (method, path, name) => {
    for (const query of [`${name.toUpperCase()}=x`, `${name}s=x`, `${name}[]=x`, `${name}=x&D`])
      expect([query, await (await send(method, path, query)).json()]).toMatchObject([query, { error: { code: 'bad_request' } }]);
  },
);
