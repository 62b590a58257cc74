/**
 * Tests the error codes for ceilings, caps and projects that can't make calls, on every inference and media route (see
 * docs/api/reference.md#rate-limits-and-ceilings). ceilings.test.ts covers counting, and ceilings-processes.test.ts
 * covers a quota store that is unavailable.
 */
import { beforeAll, describe, expect, it } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, jsonOf, shareGateway } from '../support/gateway.ts';
import { expectRouteError, projectLender, routes } from './inference-routes.ts';

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl) => `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: key-one, dialect: chat }
  three: { base_url: ${vendorUrl}/v1, api_key: key-three, dialect: messages }
  film: { base_url: ${vendorUrl}/v1beta, api_key: key-film, dialect: gemini }
models:
  one/echo: { input: 1, output: 1 }
  three/echo: { input: 1, output: 1 }
  one/free: { input: 0, output: 0 }
  one/judge: { kind: moderations }
  one/picture: { per_image: 0.04 }
  one/picture-tokens: { kind: images, input: 5, output: 40 }
  one/spoken: { per_million_characters: 15 }
  film/clip: { per_second: 0.4 }
`,
});
const lendProject = projectLender(lent, 'capped');

interface Asked {
  readonly name: string;
  readonly path: string;
  readonly body: object;
}

const asked: readonly Asked[] = [
  ...routes.map(({ name, path, first, body }) => ({ name, path, body: { ...body, model: `${first}/echo` } })),
  { name: 'chat for nothing', path: '/v1/chat/completions', body: { model: 'one/free', messages: [{ role: 'user', content: 'hi' }] } },
  { name: 'moderations for nothing', path: '/v1/moderations', body: { model: 'one/judge', input: 'hi' } },
  { name: 'images', path: '/v1/images/generations', body: { model: 'one/picture', prompt: 'a fox', size: '8x8' } },
  { name: 'images by tokens', path: '/v1/images/generations', body: { model: 'one/picture-tokens', prompt: 'a fox', size: '8x8' } },
  { name: 'speech', path: '/v1/audio/speech', body: { model: 'one/spoken', input: 'hi' } },
  { name: 'video', path: '/v1/video/generations', body: { model: 'film/clip', prompt: 'a fox' } },
];

/** Expects that every route returns this error without calling a vendor or recording anything. */
async function expectRefusals(
  gateway: TestGateway,
  wanted: { status: number; code: string; message: string; retryAfter: string | null },
  headers: Record<string, string> = {},
): Promise<void> {
  const { retryAfter, ...error } = wanted;
  const before = gateway.vendor.requests().length;
  for (const { name, path, body } of asked) {
    const answer = await gateway.call(path, body, headers);
    expect([name, answer.headers.get('retry-after')]).toEqual([name, retryAfter]);
    await expectRouteError(answer, { name }, error);
  }
  expect(gateway.vendor.requests()).toHaveLength(before);
  expect(await callsOf(gateway)).toEqual([]);
}

async function withKey(gateway: TestGateway, settings: object): Promise<TestGateway> {
  const { key } = await jsonOf<{ key: string }>(
    gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'own', ...settings }),
  );
  return { ...gateway, key, call: (path, body, headers) => gateway.call(path, body, { authorization: `Bearer ${key}`, ...headers }) };
}

it.each(['calls', 'cost', 'rpm', 'tpm'])('returns 429 tenant_capped if the key has reached its %s ceiling', async (ceiling) => {
  const gateway = await withKey(await lendProject(), { ceilings: { [ceiling]: 0 } });
  await expectRefusals(gateway, { status: 429, code: 'tenant_capped', message: `key budget exceeded (${ceiling})`, retryAfter: '60' });
});

it.each(['calls', 'cost'])('returns 429 source_capped if the application has reached its %s ceiling', async (ceiling) => {
  const gateway = await lendProject();
  const source = "Anna's app";
  const path = `/provision/teams/${gateway.project}/applications/${encodeURIComponent(source)}`;
  expect((await gateway.admin('PUT', path, { ceilings: { [ceiling]: 0 } })).ok).toBe(true);
  const wanted = { status: 429, code: 'source_capped', message: `source budget exceeded for '${source}' (${ceiling})`, retryAfter: '60' };
  await expectRefusals(gateway, wanted, { 'x-gateway-source': source });
});

it('truncates application names to 256 characters', async () => {
  const gateway = await lendProject();
  const source = 'ü'.repeat(256);
  const path = `/provision/teams/${gateway.project}/applications/${encodeURIComponent(source)}`;
  expect((await gateway.admin('PUT', path, { ceilings: { calls: 1 } })).ok).toBe(true);
  const call = (name: string): Promise<Response> => {
    const headers = { 'x-gateway-source': Buffer.from(name).toString('latin1') };
    return gateway.call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] }, headers);
  };
  expect((await call(`${source}-one`)).status).toBe(200);
  await expectRouteError(
    await call(`${source}-two`),
    { name: 'chat' },
    {
      status: 429,
      code: 'source_capped',
      message: `source budget exceeded for '${source}' (calls)`,
    },
  );
  expect(await callsOf(gateway)).toMatchObject([{ source }]);
});

describe('a project', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await lendProject();
  });

  it('returns 429 credits_exhausted once the project reaches its monthly cap', async () => {
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { monthly_cap: 0 });
    const message = 'the project has reached its monthly cap';
    await expectRefusals(gateway, { status: 429, code: 'credits_exhausted', message, retryAfter: '3600' });
  });

  it("reports the key's ceiling before the application's, and both before the monthly cap", async () => {
    const path = `/provision/teams/${gateway.project}/applications/own`;
    await gateway.admin('PUT', path, { ceilings: { calls: 0 } });
    const capped = await withKey(gateway, { ceilings: { cost: 0 } });
    const headers = { 'x-gateway-source': 'own' };
    const key = { status: 429, code: 'tenant_capped', message: 'key budget exceeded (cost)', retryAfter: '60' };
    await expectRefusals(capped, key, headers);
    const application = { status: 429, code: 'source_capped', message: "source budget exceeded for 'own' (calls)", retryAfter: '60' };
    await expectRefusals(gateway, application, headers);
  });

  it('returns 402 subscription_required if the project may not make calls', async () => {
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { may_call: false });
    const message = 'calls are turned off for this project; an owner can turn them on in the project settings';
    await expectRefusals(gateway, { status: 402, code: 'subscription_required', message, retryAfter: null });
  });
});
