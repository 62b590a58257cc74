/**
 * Simulates bugs that occur after the vendor has responded. Each test makes a function throw that the gateway uses at
 * this point. The gateway still has to settle the call with the usage that the vendor reported, and release its
 * reservation.
 */
import { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { RE2JS } from 're2js';
import { asObject } from '../../src/core/json/narrow.ts';
import { eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';

const gateway = shareGateway({
  database: 'any',
  cache: true,
  yaml: (vendorUrl) => `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: key-one, dialect: chat }
models:
  one/echo: { input: 0.15, output: 0.60, cached_input: 0.075 }
  one/picture: { per_image: 0.04 }
tiers: { standard: [one/echo] }
`,
});

afterEach(() => {
  jest.restoreAllMocks();
});

let projects = 0;

/** Creates a separate project with the given content rules. */
async function lend(rules: readonly object[] = []): Promise<TestGateway> {
  projects += 1;
  const lent = await gateway().withProject(`unexpected-${projects}`);
  const put = await lent.admin('PUT', `/provision/teams/${lent.project}/rules`, { rules });
  expect(put.status).toBe(200);
  return lent;
}

interface StoredCall {
  readonly outcome: string;
  readonly status: number;
  readonly code: string | null;
  readonly input: number;
  readonly output: number;
  readonly costNanos: number | null;
  readonly estimated: boolean;
}

/** Waits until the project's only call has ended, and returns it. */
function storedCall({ database, project }: TestGateway): Promise<StoredCall> {
  return eventually(async () => {
    const rows = await database.query<StoredCall>(
      `select outcome, status, code, tokens_input as input, tokens_output as output, cost_nanos as "costNanos", estimated
         from calls join projects on projects.id = project_id where slug = $1`,
      [project],
    );
    expect(rows).toHaveLength(1);
    return rows[0] as StoredCall;
  });
}

const routes = {
  chat: { path: '/v1/chat/completions', body: { model: 'one/echo', messages: [{ role: 'user', content: 'Say hello to everyone.' }] } },
  translated: { path: '/v1/messages', body: { model: 'one/echo', max_tokens: 100, messages: [{ role: 'user', content: 'Say hello.' }] } },
};

const charged = { outcome: 'failed', status: 500, code: 'internal_error', estimated: false };

describe.each([
  ['plain', {}],
  ['streamed', { stream: true }],
])('a %s call that fails inside the gateway', (_form, form) => {
  it('charges the reported usage if evaluating a content rule fails', async () => {
    const lent = await lend([{ class: 'expression', place: 'output', action: 'block', expression: 'never' }]);
    jest.spyOn(RE2JS.prototype, 'test').mockImplementation(() => {
      throw new Error('the check of the rule fails');
    });
    const { path, body } = routes.chat;
    const response = await lent.call(path, { ...body, ...form });
    expect(response.status).toBe(500);
    const call = await storedCall(lent);
    expect(call).toMatchObject(charged);
    expect(Math.min(call.input, call.output, call.costNanos ?? 0)).toBeGreaterThan(0);
  });

  it("charges the reported usage if the response can't be cached", async () => {
    const lent = await lend();
    const allocate = Buffer.allocUnsafeSlow;
    jest.spyOn(Buffer, 'allocUnsafeSlow').mockImplementation((size) => {
      if (new Error().stack?.includes('response-cache')) throw new Error('there is no memory for it');
      return allocate(size);
    });
    const { path, body } = routes.chat;
    // A stream that has already started breaks off, so reading it may fail.
    await lent.call(path, { ...body, ...form }).then(
      (response) => response.text(),
      () => '',
    );
    const call = await storedCall(lent);
    expect(Math.min(call.input, call.output, call.costNanos ?? 0)).toBeGreaterThan(0);
  });
});

it("charges the reported usage if the response can't be translated", async () => {
  const lent = await lend();
  const stringify = JSON.stringify;
  jest.spyOn(JSON, 'stringify').mockImplementation((value: unknown, ...more: unknown[]) => {
    if (asObject(value).type === 'message' && new Error().stack?.includes('translate-response')) throw new Error('the translation fails');
    return stringify(value, ...(more as []));
  });
  const { path, body } = routes.translated;
  expect((await lent.call(path, body)).status).toBe(500);
  const call = await storedCall(lent);
  expect(call).toMatchObject(charged);
  expect(Math.min(call.input, call.output, call.costNanos ?? 0)).toBeGreaterThan(0);
});

it("charges for a stream even if its headers can't be written", async () => {
  const lent = await lend();
  const writeHead = ServerResponse.prototype.writeHead;
  let hasFailed = false;
  jest.spyOn(ServerResponse.prototype, 'writeHead').mockImplementation(function (this: ServerResponse, ...given: unknown[]) {
    if (!hasFailed && Array.isArray(given[1]) && given[1].includes('x-gateway-model')) {
      hasFailed = true;
      throw new Error('the head cannot be written');
    }
    return writeHead.apply(this, given as Parameters<typeof writeHead>);
  } as never);
  const { path, body } = routes.chat;
  expect((await lent.call(path, { ...body, stream: true })).status).toBe(500);
  const call = await storedCall(lent);
  expect(Math.min(call.input, call.output)).toBeGreaterThan(0);
});

describe('a charge that cannot be computed', () => {
  /**
   * Sends a call with a key that has ceilings, while computing a charge fails wherever `isAffected` accepts the stack.
   */
  async function callWithoutCharge(isAffected: (stack: string) => boolean, path: string, body: object): Promise<StoredCall> {
    const lent = await lend();
    const { key } = await jsonOf<{ key: string }>(
      lent.admin('POST', `/provision/teams/${lent.project}/keys`, { name: 'limited', ceilings: { cost: 100, calls: 10 } }),
    );
    const authorization = `Bearer ${key}`;
    const toBigInt = BigInt;
    jest.spyOn(globalThis, 'BigInt').mockImplementation((value) => {
      if (isAffected(new Error().stack ?? '')) throw new Error('the charge cannot be computed');
      return toBigInt(value);
    });
    // A stream that has already started breaks off, so reading it may fail.
    await lent.call(path, body, { authorization }).then(
      (response) => response.text().catch(() => ''),
      () => '',
    );
    jest.restoreAllMocks();
    const call = await storedCall(lent);
    const { ceilings } = (await jsonOf<{ key: { ceilings: object } }>(lent.call('/status/peek', undefined, { authorization }))).key;
    expect(ceilings).toMatchObject({ cost: { used: (call.costNanos ?? 0) / 1e9, reserved: 0 }, calls: { used: 1, reserved: 0 } });
    return call;
  }

  describe.each([
    ['plain', {}],
    ['streamed', { stream: true }],
  ])('of a %s call', (_form, form) => {
    const body = { ...routes.chat.body, ...form, max_tokens: 100_000 };

    it('is replaced by the reserved usage', async () => {
      const isAffected = (stack: string): boolean => stack.includes('computeCharge') && !stack.includes('reservedUsage');
      const call = await callWithoutCharge(isAffected, routes.chat.path, body);
      expect(call).toMatchObject({ outcome: 'failed', code: 'internal_error', estimated: true, output: 100_000 });
      expect(call.costNanos).toBeGreaterThanOrEqual(0.06e9);
    });

    it("doesn't keep its reservation, even if the reserved usage can't be charged either", async () => {
      const call = await callWithoutCharge((stack) => stack.includes('computeCharge'), routes.chat.path, body);
      expect(call).toMatchObject({ outcome: 'failed', code: 'internal_error', costNanos: null, output: 100_000 });
    });
  });

  it('is replaced by the reservation of a media call', async () => {
    const body = { model: 'one/picture', prompt: 'a fox', n: 2 };
    const isAffected = (stack: string): boolean => stack.includes('computeCharge');
    const call = await callWithoutCharge(isAffected, '/v1/images/generations', body);
    expect(call).toMatchObject({ costNanos: 0.08e9, estimated: true });
  });
});
