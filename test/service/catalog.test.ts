/** Tests that imported prices are used for the cost of calls immediately, and also after a restart. */
import { describe, expect, test } from '@jest/globals';
import { callsOf, jsonOf, shareGateway } from '../support/gateway.ts';

const yaml = (vendorUrl: string): string => `
providers:
  vendor: { base_url: ${vendorUrl}/v1, api_key: k, dialect: chat }
models:
  vendor/own: { input: 1, output: 1 }
`;

interface Listed {
  readonly data: readonly { readonly id: string; readonly source: string; readonly price: Record<string, unknown> | null }[];
  readonly providers: readonly unknown[];
}

describe('the catalog', () => {
  const lent = shareGateway({ database: 'any', yaml });
  const chat = { model: 'vendor/echo', messages: [{ role: 'user', content: 'Hello' }] };

  test('charges imported prices from the next call on', async () => {
    const gateway = lent();
    expect((await gateway.call('/v1/chat/completions', chat)).status).toBe(200);
    expect((await callsOf(gateway))[0]?.cost).toBeNull();

    const models = { 'vendor/echo': { input: '1000', output: '0' }, 'vendor/own': { input: '5', output: '5' } };
    const answer = await gateway.admin('PUT', '/provision/catalog', { models });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({
      object: 'catalog_import',
      added: ['vendor/echo'],
      changed: [],
      unchanged: [],
      removed: [],
      kept_by_file: ['vendor/own'],
    });

    await gateway.call('/v1/chat/completions', chat);
    const [call] = await callsOf(gateway);
    expect(call?.cost).toBeCloseTo((call?.tokens.input ?? 0) / 1_000, 9);
    expect(call?.cost).toBeGreaterThan(0);
    const { data } = await jsonOf<{ data: { id: string }[] }>(gateway.call('/v1/models'));
    expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining(['vendor/own', 'vendor/echo']));
  });

  test('lists active models with their source and price in USD', async () => {
    const { data, providers } = await jsonOf<Listed>(lent().admin('GET', '/provision/catalog'));
    expect(data.map(({ id, source }) => [id, source])).toEqual([
      ['vendor/own', 'file'],
      ['vendor/echo', 'import'],
    ]);
    expect(data[0]?.price).toEqual({ input: 1, output: 1, cached_input: 1, cache_write: 1, cache_write_1h: 1 });
    expect(providers).toEqual([
      { name: 'vendor', vendor: null, host: '127.0.0.1', dialect: 'chat', serves: expect.arrayContaining(['chat']) },
    ]);
  });

  test('reports every mistake in an import and stores nothing', async () => {
    const models = {
      'vendor/good': { input: '1', output: '1' },
      'vendor/bad': { input: 'free' },
      'nobody/x': {},
      'vendor/odd': { inptu: 1 },
    };
    const answer = await lent().admin('PUT', '/provision/catalog', { models });
    expect(answer.status).toBe(400);
    const { error } = await jsonOf<{ error: { code: string; message: string } }>(answer);
    expect(error.code).toBe('bad_request');
    for (const place of ['vendor/bad.input', 'vendor/bad.output', 'nobody/x: there is no provider', 'vendor/odd']) {
      expect(error.message).toContain(place);
    }
    const { data } = await jsonOf<Listed>(lent().admin('GET', '/provision/catalog'));
    expect(data.some(({ id }) => id === 'vendor/good')).toBe(false);
    for (const body of [undefined, {}, { models: [] }, { models: {}, x: 1 }]) {
      expect((await lent().admin('PUT', '/provision/catalog', body)).status).toBe(400);
    }
  });

  test('requires the admin token for an import', async () => {
    const { url, key, admin } = lent();
    for (const method of ['GET', 'PUT']) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const answer = await fetch(`${url}/provision/catalog`, { method, headers, ...(method === 'PUT' && { body: '{' }) });
      expect(answer.status).toBe(401);
    }
    const models = Object.fromEntries(
      Array.from({ length: 10_000 }, (_, index) => [
        `vendor/large-${index}`,
        { input: '0.000000000000000000000000000000000000001', output: '1' },
      ]),
    );
    const answer = await admin('PUT', '/provision/catalog', { models });
    expect(answer.status).toBe(200);
    expect((await jsonOf<{ added: string[] }>(answer)).added).toHaveLength(10_000);
    const removal = Object.fromEntries(Object.keys(models).map((id) => [id, null]));
    expect((await jsonOf<{ removed: string[] }>(admin('PUT', '/provision/catalog', { models: removal }))).removed).toHaveLength(10_000);
  });
});
