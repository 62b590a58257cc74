/**
 * Tests failures across dialects. Requests that can't be translated aren't sent, and vendor errors are in the caller's
 * format.
 */
import { describe, expect, it } from '@jest/globals';
import { callsOf, jsonOf, shareGateway } from '../support/gateway.ts';
import type { Dialect } from './dialects-gateway.ts';
import { dialects, lastCall, otherOf, paths, providersYaml, translatedWays, vendors } from './dialects-gateway.ts';
import { expectRouteError, projectLender, routeOf } from './inference-routes.ts';

/** For each caller, the tier starts with a model of the other dialect from the given provider. */
const tiers = `tiers:
  chat-other-first: [three/echo, one/echo]
  messages-other-first: [one/echo, three/echo]
  chat-then-fails: [three/echo, one/fail-500]
  messages-then-fails: [one/echo, three/fail-500]
  chat-then-refuses: [three/echo, one/refuse-422]
  messages-then-refuses: [one/echo, three/refuse-422]
`;
const lent = shareGateway({ database: 'any', yaml: (vendorUrl, deadUrl) => providersYaml(vendorUrl, deadUrl) + tiers });
/** Breakers are per project. */
const lend = projectLender(lent, 'refusals');

const user = { role: 'user', content: 'hi' };

/**
 * Members without an equivalent in the other dialect, and the error message for each. The first one is refused by its
 * rule, and the second one by the translator. The tests of the translators list all others.
 */
const untranslatable: Readonly<Record<Dialect, readonly (readonly [title: string, members: object, sentence: string])[]>> = {
  chat: [
    ['two choices', { n: 2 }, 'n: must be 1 for vendors that use the messages dialect'],
    [
      'audio',
      { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }] },
      'input_audio is not supported by vendors that use the messages dialect',
    ],
  ],
  messages: [
    ['a compaction', { compaction: { type: 'summarize' } }, 'compaction: is not supported by vendors that use the chat dialect'],
    [
      "a vendor's own tool",
      { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      'tools: only custom tools are supported by vendors that use the chat dialect',
    ],
  ],
};

const bodyOf = (members: object, stream: boolean) => ({ max_tokens: 50, stream, messages: [user], ...members });

/** JSON text of a list that is nested too deeply to translate. */
const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`;

describe.each(dialects)('a %s request that the other dialect cannot express', (caller) => {
  const route = routeOf(caller);
  const other = vendors[otherOf(caller)];

  it.each(untranslatable[caller])('fails over to a vendor of the caller’s dialect for %s', async (_title, members) => {
    const gateway = await lend();
    for (const stream of [false, true]) {
      const asked = gateway.vendor.requests().length;
      const body = { model: `${caller}-other-first`, ...bodyOf(members, stream) };
      const answer = await gateway.call(paths[caller], body);
      expect([answer.status, answer.headers.get('x-gateway-model'), await answer.text()]).toEqual([
        200,
        `${vendors[caller]}/echo`,
        expect.anything(),
      ]);
      const [request, ...more] = gateway.vendor.requests().slice(asked);
      expect([request?.path, more]).toEqual([paths[caller], []]);
      expect(await lastCall(gateway)).toMatchObject({
        outcome: 'ok',
        attempts: [
          { n: 1, provider: other, status: null, outcome: 'refused', first_byte_ms: null, cost: 0 },
          { n: 2, provider: vendors[caller], outcome: 'ok', status: 200 },
        ],
      });
    }
  });

  it.each(untranslatable[caller])('returns 400 for %s if there is no other vendor', async (_title, members, sentence) => {
    const gateway = await lend();
    for (const stream of [false, true]) {
      const asked = gateway.vendor.requests().length;
      const answer = await gateway.call(paths[caller], { model: `${other}/echo`, ...bodyOf(members, stream) });
      await expectRouteError(answer, route, { status: 400, code: 'upstream_refused', message: sentence });
      expect(gateway.vendor.requests()).toHaveLength(asked);
      expect(await lastCall(gateway)).toMatchObject({
        outcome: 'refused',
        status: 400,
        code: 'upstream_refused',
        tokens: { input: 0, output: 0 },
        cost: 0,
        attempts: [{ n: 1, provider: other, status: null, outcome: 'refused' }],
      });
    }
  });

  it('returns 400 if the body is too deeply nested to translate', async () => {
    const gateway = await lend();
    const body = `{"model":"${other}/echo","max_tokens":50,"messages":[{"role":"user","content":"hi"}],"x_deep":${deep}}`;
    await expectRouteError(await gateway.call(paths[caller], body), route, {
      status: 400,
      code: 'upstream_refused',
      message: 'the body is nested too deeply, or has too many values, to be translated to the other dialect',
    });
    const asBytes = await gateway.call(paths[caller], body.replace(`${other}/echo`, `${caller}-other-first`));
    expect([asBytes.status, asBytes.headers.get('x-gateway-model')]).toEqual([200, `${vendors[caller]}/echo`]);
  });

  it("doesn't count an untranslatable request against the breaker", async () => {
    const gateway = await lend();
    const [, members = {}] = untranslatable[caller][0] ?? [];
    const ask = (model: string) => gateway.call(paths[caller], { model, ...bodyOf(members, false) });
    for (let times = 0; times < 6; times += 1) await ask(`${other}/echo`);
    const { breakers } = await jsonOf<{ breakers: unknown }>(gateway.call('/status/peek'));
    expect(breakers).toContainEqual({ provider: other, state: 'closed', failures: 0, opened_at: null, retry_at: null });

    const failed = await ask(`${caller}-then-fails`);
    await expectRouteError(failed, route, { status: 502, code: 'upstream_failed', message: new RegExp(`^${vendors[caller]}/fail-500: `) });
    const refused = await ask(`${caller}-then-refuses`);
    // The message comes from the first vendor that received the request. It is not the gateway's own message about the
    // one before it.
    await expectRouteError(refused, route, { status: 422, code: 'upstream_refused', message: /refuse-422/ });
    expect((await lastCall(gateway)).attempts).toMatchObject([{ outcome: 'refused' }, { outcome: 'refused', status: 422 }]);
  });
});

describe.each(translatedWays)('an error from a $vendor vendor to a $caller caller', ({ caller, vendor }) => {
  const route = routeOf(caller);
  const ask = async (model: string, stream: boolean) => {
    const gateway = await lend();
    const provider = model === 'hang' ? (vendor === 'chat' ? 'hasty' : 'hasty-messages') : vendors[vendor];
    return { gateway, answer: await gateway.call(paths[caller], { model: `${provider}/${model}`, ...bodyOf({}, stream) }) };
  };

  it.each([400, 418])("returns the vendor's status and message if it refuses the call with %d", async (status) => {
    for (const stream of [false, true]) {
      const model = `refuse-${status}`;
      const { gateway, answer } = await ask(model, stream);
      const message = `The request is not one that '${model}' can answer.`;
      await expectRouteError(answer, route, { status, code: 'upstream_refused', message });
      expect(await lastCall(gateway)).toMatchObject({ outcome: 'refused', status, attempts: [{ status, outcome: 'refused' }] });
    }
  });

  it.each([
    ['fail-404', 404, /^The model 'fail-404' does not exist/],
    ['not-found', 404, /^Invalid URL/],
  ])("returns the vendor's status after %s if no model is left", async (model, status, message) => {
    for (const stream of [false, true]) {
      const { gateway, answer } = await ask(model, stream);
      await expectRouteError(answer, route, { status, code: 'upstream_refused', message });
      expect(await lastCall(gateway)).toMatchObject({ outcome: 'refused', status, attempts: [{ status, outcome: 'failed' }] });
    }
  });

  it.each([
    ['fail-401', 401, /the vendor responded with 401$/],
    ['fail-500', 500, /the vendor responded with 500: /],
    ['fail-529', 529, /the vendor responded with 529: Overloaded$/],
    ['quota', 429, /the vendor responded with 429: You exceeded your current quota/],
    ['redirect', 302, /the vendor responded with 302$/],
    ['garbage', 200, /the response is not (?:a valid \w+ response|an event stream)/],
    ['wrong-type', 200, /the response is not (?:a valid \w+ response|an event stream)/],
    ['hang', null, /timed out waiting for the response$/],
  ])("returns 502 if the vendor's response is not valid: %s", async (model, status, reason) => {
    for (const stream of [false, true]) {
      const { gateway, answer } = await ask(model, stream);
      await expectRouteError(answer, route, { status: [502, 503], code: 'upstream_failed', message: reason });
      expect(answer.headers.get('retry-after')).toBeNull();
      expect(await callsOf(gateway)).toMatchObject([{ outcome: 'failed', attempts: [{ n: 1, status, outcome: 'failed', wait_ms: 0 }] }]);
    }
  });

  it('returns 503 if no vendor can be reached', async () => {
    const gateway = await lend();
    const model = vendor === 'chat' ? 'dead/any' : 'dead-messages/any';
    const answer = await gateway.call(paths[caller], { model, ...bodyOf({}, false) });
    await expectRouteError(answer, route, { status: 503, code: 'upstream_failed', message: /the connection was refused/ });
  });
});
