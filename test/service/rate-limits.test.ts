/**
 * Tests that callers never see a vendor's 429, no matter in which order the candidates are, and that the gateway waits
 * as long as the vendor asks if the deadline allows it.
 */
import { describe, expect, it } from '@jest/globals';
import { isExhaustive } from '../support/exhaustive.ts';
import type { CallRow, TestGateway } from '../support/gateway.ts';
import { shareGateway } from '../support/gateway.ts';
import { startTogether } from '../support/start-together.ts';
import type { Dialect } from './dialects-gateway.ts';
import { dialects, lastCall, otherOf, paths, providersYaml, vendors } from './dialects-gateway.ts';
import { expectRouteError, projectLender, routeOf } from './inference-routes.ts';

const limitMs = 4;
/** What a candidate does, and the scripted model that does it. */
const behaviours = { limited: `rate-limited-ms-${limitMs}`, answers: 'echo', fails: 'fail-500', refuses: 'refuse-422' } as const;
type Behaviour = keyof typeof behaviours;
const kinds = Object.keys(behaviours) as readonly Behaviour[];

interface Candidate {
  readonly kind: Behaviour;
  readonly vendor: Dialect;
  /** The id of the model, as `<provider>/<model>`. We use another model at each position of the chain. */
  readonly id: string;
}

/**
 * Every order of what three candidates do, over both dialects. They use one provider, or two in each order that
 * matters.
 */
const plans: readonly { readonly tier: string; readonly chain: readonly Candidate[] }[] = dialects.flatMap((first) => {
  const second = otherOf(first);
  const places: readonly (readonly Dialect[])[] = [
    [first, first, first],
    [first, first, second],
    [first, second, first],
    [first, second, second],
  ];
  return places.flatMap((vendorsOfPlaces, number) =>
    kinds.flatMap((a) =>
      kinds.flatMap((b) =>
        kinds.map((c) => {
          const chain = [a, b, c].map((kind, at) => {
            const vendor = vendorsOfPlaces[at] ?? first;
            return { kind, vendor, id: `${vendors[vendor]}/${behaviours[kind]}+at-${at}` };
          });
          return { tier: `p${number}-${first}-${a}-${b}-${c}`, chain };
        }),
      ),
    ),
  );
});

/**
 * The ways in which a vendor asks for a wait (see docs/vendors.md), with the shortest and longest wait in milliseconds.
 */
const hints: readonly (readonly [model: string, leastMs: number, mostMs: number])[] = [
  ['rate-limited-0.06', 60, 60],
  ['rate-limited-1', 1_000, 1_000],
  ['rate-limited-ms-70', 70, 70],
  // A date only has whole seconds, and on a busy machine we read it long after it was written.
  ['rate-limited-date-2', 0, 2_000],
  ['rate-limited-date-0', 0, 0],
  ['rate-limited-reset-0.2', 0, 200],
  // The response contains an absolute time, so the vendor's own delay has already passed.
  ['slow-150+rate-limited-reset-0.2', 0, 200],
  ['rate-limited-body-0.08', 80, 80],
  ['rate-limited-bare', 1_000, 1_000],
];

/** A tier cannot have any model name. */
const tierName = (model: string): string => model.replaceAll('+', '.');

const tierLines = (first: Dialect): string[] => {
  const [own, other] = [vendors[first], vendors[otherOf(first)]];
  return [
    ...hints.map(([model]) => `${first}-${tierName(model)}: [${own}/${model}, ${own}/echo]`),
    `${first}-spent: [${own}/spend-limit, ${own}/echo]`,
    `${first}-spent-alone: [${own}/spend-limit]`,
    `${first}-spent-last: [${other}/fail-500, ${own}/spend-limit]`,
    `${first}-then-other: [${own}/rate-limited-60, ${other}/echo]`,
    `${first}-long: [${own}/rate-limited-60]`,
    `${first}-long-then-own: [${own}/rate-limited-60, ${own}/echo]`,
    `${first}-fails-then-long: [${other}/fail-500, ${own}/rate-limited-60]`,
    // The vendor limits each model once, so each combination has a separate model.
    ...dialects.map((caller) => `${first}-short-${caller}: [${own}/rate-limited-once-0.5+held+from-${caller}-to-${first}]`),
  ];
};
const lines = [
  ...plans.map(({ tier, chain }) => `${tier}: [${chain.map(({ id }) => `"${id}"`).join(', ')}]`),
  ...dialects.flatMap(tierLines),
];
const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) => `${providersYaml(vendorUrl, deadUrl)}tiers:\n${lines.map((line) => `  ${line}\n`).join('')}`,
});
/** Breakers and the waits that a vendor asked for are per project. */
const lend = projectLender(lent, 'limits');

const bodyOf = (model: string, stream = false) => ({ model, stream, max_tokens: 50, messages: [{ role: 'user', content: 'hi' }] });

/**
 * Implements the documented rule a second time. Returns the candidates that get a request in order, where `true` marks
 * a retry after a wait. The list ends with the first success.
 */
function expectedAttempts(chain: readonly Candidate[]): readonly (readonly [id: string, isRetry: boolean])[] {
  const asked: [string, boolean][] = [];
  let rest = chain;
  for (let next = rest[0]; next; next = rest[0]) {
    const { kind, vendor, id } = next;
    asked.push([id, false]);
    rest = rest.slice(1);
    if (kind === 'answers') return asked;
    if (kind !== 'limited') continue;
    const others = rest.filter((candidate) => candidate.vendor !== vendor);
    if (others.length === 0) asked.push([id, true]);
    else rest = [...others, ...rest.filter((candidate) => candidate.vendor === vendor)];
  }
  return asked;
}

/**
 * The plans without those that only differ in candidates that don't get a request. Each plan serves one of the callers.
 */
const distinctPlans = [...new Map(plans.map((plan) => [JSON.stringify(expectedAttempts(plan.chain)), plan])).values()];

async function expectPlan(caller: Dialect, { tier, chain }: (typeof plans)[number], stream: boolean): Promise<void> {
  const gateway = await lend();
  const answer = await gateway.call(paths[caller], bodyOf(tier, stream));
  const expected = expectedAttempts(chain);
  const status = expectedStatus(chain);
  expect({ tier, status: answer.status, retryAfter: answer.headers.get('retry-after') }).toEqual({
    tier,
    status,
    // Whole seconds, at least one.
    retryAfter: status === 503 ? '1' : null,
  });
  if (answer.status === 200) {
    expect([answer.headers.get('x-gateway-model'), await answer.text()]).toEqual([expected.at(-1)?.[0], expect.stringContaining('You ')]);
  } else {
    const message =
      answer.status === 422 ? /^The request is not one/ : new RegExp(`^${escaped(expected.at(-1)?.[0] ?? '')}: the vendor responded with`);
    await expectRouteError(answer, routeOf(caller), {
      status: answer.status,
      code: answer.status === 422 ? 'upstream_refused' : 'upstream_failed',
      message,
    });
  }
  const { attempts } = await lastCall(gateway);
  expect({ tier, attempts: attempts.map(attemptOf) }).toEqual({ tier, attempts: expected });
}

/**
 * 503 if only limits prevent a response, because waiting doesn't change a refusal, and a failure may be over without
 * waiting.
 */
function expectedStatus(chain: readonly Candidate[]): number {
  const does = (wanted: Behaviour): boolean => chain.some(({ kind }) => kind === wanted);
  if (does('answers')) return 200;
  if (chain.every(({ kind }) => kind === 'refuses')) return 422;
  return does('limited') && !does('fails') ? 503 : 502;
}

function attemptOf(attempt: CallRow['attempts'][number]): [string, boolean] {
  const { provider, model, wait_ms: waitMs } = attempt as typeof attempt & { provider: string; model: string };
  expect([0, limitMs]).toContain(waitMs);
  return [`${provider}/${model}`, waitMs > 0];
}

const escaped = (text: string): string => text.replace(/[.+/]/g, '\\$&');

describe.each(dialects)('rate limits for a %s caller', (caller) => {
  const isChat = caller === 'chat';
  const ownPlans = isExhaustive ? plans : distinctPlans.filter((_, index) => (index % 2 === 0) === isChat);

  it("never passes a vendor's 429 on to the caller, whatever order the candidates are in", async () => {
    for (let from = 0; from < ownPlans.length; from += 8) {
      const some = ownPlans.slice(from, from + 8);
      await Promise.all(some.map((plan, index) => expectPlan(caller, plan, (index % 2 === 0) === isChat)));
    }
  });
});

const callers = dialects.flatMap((caller) => dialects.map((vendor) => ({ caller, vendor })));

interface Asked {
  readonly answer: Response;
  readonly call: CallRow;
  readonly tookMs: number;
}

async function askTier(caller: Dialect, tier: string, headers: Record<string, string> = {}): Promise<Asked> {
  const gateway: TestGateway = await lend();
  const startedAt = performance.now();
  const answer = await gateway.call(paths[caller], bodyOf(tier), headers);
  return { answer, call: await lastCall(gateway), tookMs: performance.now() - startedAt };
}

/** The calls that wait, by caller, vendor, and hint or `short`. */
const waited = startTogether(
  callers.flatMap(({ caller, vendor }) => [...hints.map(([model]) => model), 'short'].map((name) => `${caller} ${vendor} ${name}`)),
  (key) => {
    const [caller, vendor, name = ''] = key.split(' ') as [Dialect, Dialect, string];
    if (name === 'short') return askTier(caller, `${vendor}-short-${caller}`, { 'x-gateway-timeout-ms': '6000' });
    return askTier(caller, `${vendor}-${tierName(name)}`);
  },
);

describe.each(callers)('a $caller call to a rate-limited $vendor vendor', ({ caller, vendor }) => {
  const ask = (tier: string, headers?: Record<string, string>): Promise<Asked> => askTier(caller, `${vendor}-${tier}`, headers);

  it.each(hints)('retries a rate-limited vendor after the time it asks for (%s)', async (model, leastMs, mostMs) => {
    const { answer, call, tookMs } = await waited(`${caller} ${vendor} ${model}`);
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, `${vendors[vendor]}/echo`]);
    expect(call.attempts).toMatchObject([
      { n: 1, status: 429, outcome: 'failed', wait_ms: 0 },
      { n: 2, status: 429, outcome: 'failed', wait_ms: expect.any(Number) },
      { n: 3, status: 200, outcome: 'ok', wait_ms: 0 },
    ]);
    const waitMs = call.attempts[1]?.wait_ms ?? -1;
    expect(waitMs).toBeGreaterThanOrEqual(leastMs);
    expect(waitMs).toBeLessThanOrEqual(mostMs);
    // A timer may be a millisecond early.
    expect(tookMs).toBeGreaterThanOrEqual(waitMs - 1);
  });

  it("doesn't wait for a rate-limited vendor if another one can serve the call", async () => {
    const { answer, call } = await ask('then-other');
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, `${vendors[otherOf(vendor)]}/echo`]);
    expect(call.attempts).toMatchObject([{ status: 429 }, { status: 200, wait_ms: 0 }]);
  });

  it("doesn't wait for a vendor whose spend limit has been reached", async () => {
    const next = await ask('spent');
    expect([next.answer.status, next.call.attempts.map(({ status, wait_ms: waitMs }) => [status, waitMs])]).toEqual([
      200,
      [
        [429, 0],
        [200, 0],
      ],
    ]);
    for (const [tier, statuses] of [
      ['spent-alone', [429]],
      ['spent-last', [500, 429]],
    ] as const) {
      const { answer, call } = await ask(tier);
      const message = /spend-limit: the vendor responded with 429: The spend limit set by the owner/;
      await expectRouteError(answer, routeOf(caller), { status: 502, code: 'upstream_failed', message });
      expect(answer.headers.get('retry-after')).toBeNull();
      expect(call.attempts.map(({ status }) => status)).toEqual(statuses);
    }
  });

  it.each(['long', 'fails-then-long'])('returns `client deadline exceeded` if the wait would exceed the deadline (%s)', async (tier) => {
    const { answer, call } = await ask(tier, { 'x-gateway-timeout-ms': '50000' });
    await expectRouteError(answer, routeOf(caller), {
      status: [502, 503],
      code: 'upstream_failed',
      message: /^client deadline exceeded.*rate-limited-60: the vendor responded with 429/,
    });
    expect(call).toMatchObject({ outcome: 'deadline', code: 'upstream_failed' });
    expect(call.attempts.at(-1)).toMatchObject({ status: 429, wait_ms: 0 });
  });

  it('switches to another model if waiting for a rate-limited one would exceed the deadline', async () => {
    const { answer, call } = await ask('long-then-own', { 'x-gateway-timeout-ms': '50000' });
    expect(answer.status).toBe(200);
    expect(call.attempts).toMatchObject([{ status: 429 }, { status: 200, wait_ms: 0 }]);
  });

  it('returns `client deadline exceeded` if the retry after a short wait takes too long', async () => {
    const { answer, call } = await waited(`${caller} ${vendor} short`);
    await expectRouteError(answer, routeOf(caller), { status: [502, 503], code: 'upstream_failed', message: /^client deadline exceeded/ });
    expect(call).toMatchObject({ outcome: 'deadline' });
    expect(call.attempts).toMatchObject([{ status: 429 }, { status: null, wait_ms: 500, outcome: 'deadline' }]);
  });
});
