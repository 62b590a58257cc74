import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Candidate } from '../../src/core/candidate.ts';
import { VendorError } from '../../src/core/errors.ts';
import type { ChainResult } from '../../src/failover/chain.ts';
import { runChain } from '../../src/failover/chain.ts';

/**
 * `a1` is model a1 of provider a. `a1@9` has a window of 9 tokens, and other windows are unknown. `a1:e` is called at
 * member e of the provider's pool, and `a1:e=x` at a member whose account is x.
 */
function candidateOf(text: string): Candidate {
  const [name = '', window] = text.split('@');
  const [own = '', memberText] = name.split(':');
  const [member = '', account = member] = memberText?.split('=') ?? [];
  const model = {
    id: `${own[0]}/${own}`,
    provider: own[0] ?? '',
    model: memberText === undefined ? own : `${own}:${member}`,
    dialect: 'chat',
    price: null,
    maxOutputTokens: null,
    ...(memberText !== undefined && { member: { name: member, key: `${own[0]}/${member}`, account, accountKeys: [] } }),
  } as const;
  return window === undefined ? model : { ...model, maxInputTokens: Number(window) };
}

const answers = 'ok';
const refuses = new VendorError('status', 'refused', { status: 400 });
const fails = new VendorError('status', 'failed', { status: 500 });
const untranslatable = new VendorError('status', 'not in this dialect', { status: 400, isUntranslatable: true });
const missing = new VendorError('status', 'not found', { status: 404 });
const closed = new VendorError('connect', 'closed', { closedWhileSending: true });
const unreachable = new VendorError('connect', 'no connection');
const limited = new VendorError('status', 'limited', { status: 429 });
const limitedFor = (retryAfterMs: number | null): VendorError => new VendorError('status', 'limited', { status: 429, retryAfterMs });
const overflowOf = (windowTokens: number | null): VendorError =>
  new VendorError('status', 'too long', {
    status: 400,
    report: { code: 'context_length_exceeded', type: null, param: null, windowTokens },
  });
const tooLong = overflowOf(null);
const aborted = new VendorError('aborted', 'cancelled');

type Reply = typeof answers | Error;

interface Outcome {
  readonly result: ChainResult<string>;
  /** `a1` is an attempt, and `+500` is a delay before it. */
  readonly trace: string;
}

interface Script {
  readonly plan: string;
  /** The replies of each model by attempt. The last one repeats. */
  readonly replies: Readonly<Record<string, readonly Reply[]>>;
  readonly deadlineMs?: number;
  /** The duration of each attempt. */
  readonly attemptMs?: number;
  /** How many attempts the call's ceilings allow. */
  readonly affordable?: number;
  /** If true, the call is cancelled during a delay. */
  readonly stopsInPause?: boolean;
  /** The call refers to state that one member has. */
  readonly hasStateAtMember?: boolean;
}

async function run({
  plan,
  replies,
  deadlineMs,
  attemptMs = 10,
  affordable = 99,
  stopsInPause = false,
  hasStateAtMember = false,
}: Script): Promise<Outcome> {
  let now = 0;
  const trace: string[] = [];
  const attempts = new Map<string, number>();
  const result = await runChain<string>({
    candidates: plan.split(' ').filter(Boolean).map(candidateOf),
    hasStateAtMember,
    async attempt({ model }, waitMs) {
      const times = attempts.get(model) ?? 0;
      attempts.set(model, times + 1);
      trace.push(waitMs > 0 ? `${model}(${waitMs})` : model);
      now += attemptMs;
      const reply = replies[model]?.[times] ?? replies[model]?.at(-1) ?? answers;
      if (reply === answers) return model;
      throw reply;
    },
    reserveNext: async () => trace.length < affordable,
    remainingMs: () => (deadlineMs === undefined ? null : deadlineMs - now),
    async pause(waitMs) {
      trace.push(`+${waitMs}`);
      if (stopsInPause) throw aborted;
      now += waitMs;
    },
  });
  return { result, trace: trace.join(' ') };
}

function failuresOf({ result }: Outcome): string[] {
  return result.kind === 'responded' ? [] : result.failures.map(({ candidate }) => candidate.model);
}

describe('the order of attempts', () => {
  test.each<[string, Script, string, string]>([
    ['stops at the first response', { plan: 'a1 b1', replies: {} }, 'a1', 'responded'],
    ['tries the next model after a failure', { plan: 'a1 a2 b1', replies: { a1: [fails], a2: [unreachable] } }, 'a1 a2 b1', 'responded'],
    ['tries the next model after a refusal', { plan: 'a1 b1', replies: { a1: [refuses] } }, 'a1 b1', 'responded'],
    ['gives up if all models refuse', { plan: 'a1 b1', replies: { a1: [refuses], b1: [refuses] } }, 'a1 b1', 'exhausted'],
    [
      'tries each model once if all fail',
      { plan: 'a1 a2 b1', replies: { a1: [fails], a2: [fails], b1: [fails] } },
      'a1 a2 b1',
      'exhausted',
    ],
    [
      "stops when a ceiling doesn't allow another attempt",
      { plan: 'a1 b1 c1', replies: { a1: [fails], b1: [fails] }, affordable: 2 },
      'a1 b1',
      'exhausted',
    ],
    ['gives up if there are no candidates', { plan: '', replies: {} }, '', 'exhausted'],

    [
      'tries the next larger model if the prompt is too long',
      { plan: 'a1@9 b1@9 c1@5 d1@10', replies: { a1: [tooLong] } },
      'a1 d1',
      'responded',
    ],
    [
      'assumes that a model of unknown size may be larger',
      { plan: 'a1@9 b1 c1@9', replies: { a1: [tooLong], b1: [tooLong] } },
      'a1 b1',
      'exhausted',
    ],
    [
      'assumes that others may be larger than a model of unknown size',
      { plan: 'a1 b1@1', replies: { a1: [tooLong] } },
      'a1 b1',
      'responded',
    ],
    [
      'believes the vendor if it reports a smaller window',
      { plan: 'a1@9 b1@9 c1@5', replies: { a1: [overflowOf(5)], b1: [tooLong] } },
      'a1 b1',
      'exhausted',
    ],
    ["uses the vendor's window if the catalog has none", { plan: 'a1 b1@5 c1@6', replies: { a1: [overflowOf(5)] } }, 'a1 c1', 'responded'],
    ['tries smaller models after another kind of failure', { plan: 'a1@9 b1@5', replies: { a1: [refuses] } }, 'a1 b1', 'responded'],

    ['tries another vendor immediately after a 429', { plan: 'a1 a2 b1', replies: { a1: [limited] } }, 'a1 b1', 'responded'],
    [
      'tries other vendors before other models of a limited vendor',
      { plan: 'a1 a2 b1 a3 c1', replies: { a1: [limited], b1: [fails], c1: [fails] } },
      'a1 b1 c1 a2',
      'responded',
    ],
    [
      "keeps the order of a limited vendor's other models",
      { plan: 'a1 a2 b1 a3', replies: { a1: [limited], b1: [fails], a2: [fails] } },
      'a1 b1 a2 a3',
      'responded',
    ],
    [
      'waits after a 429 that follows a closed connection',
      { plan: 'a1', replies: { a1: [closed, limitedFor(300), answers] } },
      'a1 +0 a1 +300 a1(300)',
      'responded',
    ],
    [
      'tries the remaining models after two vendors returned 429',
      { plan: 'a1 a2 b1 b2', replies: { a1: [limited], b1: [limited] } },
      'a1 b1 a2',
      'responded',
    ],
    [
      "tries the second vendor's models after the first's",
      { plan: 'a1 a2 b1 b2 c1', replies: { a1: [limited], b1: [limited], c1: [fails], a2: [fails] } },
      'a1 b1 c1 a2 b2',
      'responded',
    ],
    [
      'retries after a 429 from the last vendor',
      { plan: 'a1 b1', replies: { a1: [fails], b1: [limitedFor(300), answers] } },
      'a1 b1 +300 b1(300)',
      'responded',
    ],
    [
      "doesn't retry after a 429 if another vendor remains",
      { plan: 'a1 b1', replies: { a1: [limited], b1: [fails] } },
      'a1 b1',
      'exhausted',
    ],
    [
      "retries after a 429 if the other vendors' dialects can't express the request",
      { plan: 'a1 b1 c1', replies: { a1: [limitedFor(300), answers], b1: [untranslatable], c1: [untranslatable] } },
      'a1 b1 c1 +300 a1(300)',
      'responded',
    ],
    [
      "retries a limited model before the vendor's other models if no other vendor could be called",
      { plan: 'a1 a2 b1', replies: { a1: [limitedFor(300)], b1: [untranslatable] } },
      'a1 b1 +300 a1(300) a2',
      'responded',
    ],
    [
      'retries a pool member after a 429 if another member fails',
      { plan: 'a1:e a1:f b1', replies: { 'a1:e': [limitedFor(300), answers], 'a1:f': [fails], b1: [untranslatable] } },
      'a1:e b1 a1:f +300 a1:e(300)',
      'responded',
    ],
    [
      "doesn't retry a pool member after a 429 if another member refuses the request",
      { plan: 'a1:e a1:f', replies: { 'a1:e': [limited], 'a1:f': [refuses] } },
      'a1:e a1:f',
      'exhausted',
    ],
    [
      "doesn't retry after a 429 if one of the other vendors has been called",
      { plan: 'a1 b1 c1', replies: { a1: [limited], b1: [fails], c1: [untranslatable] } },
      'a1 b1 c1',
      'exhausted',
    ],

    [
      'waits and retries once if there is only one vendor',
      { plan: 'a1', replies: { a1: [limitedFor(700), answers] } },
      'a1 +700 a1(700)',
      'responded',
    ],
    ['waits one second without Retry-After', { plan: 'a1', replies: { a1: [limited, answers] } }, 'a1 +1000 a1(1000)', 'responded'],
    ['retries immediately after a Retry-After of zero', { plan: 'a1', replies: { a1: [limitedFor(0), answers] } }, 'a1 +0 a1', 'responded'],
    ['retries once and then tries the next model', { plan: 'a1 a2', replies: { a1: [limited] } }, 'a1 +1000 a1(1000) a2', 'responded'],
    ['accepts a retry that fails differently', { plan: 'a1 a2', replies: { a1: [limited, refuses] } }, 'a1 +1000 a1(1000) a2', 'responded'],
    [
      'retries each model once',
      { plan: 'a1 a2', replies: { a1: [limitedFor(5)], a2: [limitedFor(7)] } },
      'a1 +5 a1(5) a2 +7 a2(7)',
      'exhausted',
    ],
    [
      'retries the last remaining vendor after a delay',
      { plan: 'a1 a2 b1', replies: { a1: [limited], b1: [fails], a2: [limitedFor(9), answers] } },
      'a1 b1 a2 +9 a2(9)',
      'responded',
    ],
    [
      'tries the next model immediately if the quota is exhausted',
      { plan: 'a1 a2', replies: { a1: [limitedFor(null)] } },
      'a1 a2',
      'responded',
    ],
    ["doesn't retry the only model if its quota is exhausted", { plan: 'a1', replies: { a1: [limitedFor(null)] } }, 'a1', 'exhausted'],

    [
      'tries the next model if the delay would exceed the deadline',
      { plan: 'a1 a2', replies: { a1: [limitedFor(5000)] }, deadlineMs: 1000 },
      'a1 a2',
      'responded',
    ],
    [
      'waits if the delay is within the deadline',
      { plan: 'a1', replies: { a1: [limitedFor(900), answers] }, deadlineMs: 1000 },
      'a1 +900 a1(900)',
      'responded',
    ],
    [
      'makes no attempt after the deadline',
      { plan: 'a1 b1 c1', replies: { a1: [fails], b1: [fails] }, deadlineMs: 20 },
      'a1 b1',
      'aborted',
    ],
    ['makes no attempt if the deadline has passed', { plan: 'a1', replies: {}, deadlineMs: 0 }, '', 'aborted'],
    ['stops after an aborted attempt', { plan: 'a1 b1', replies: { a1: [aborted] } }, 'a1', 'aborted'],
    ["stops if it's cancelled during a delay", { plan: 'a1 a2', replies: { a1: [limitedFor(5)] }, stopsInPause: true }, 'a1 +5', 'aborted'],
  ])('%s', async (_name, script, trace, kind) => {
    const outcome = await run(script);
    expect(outcome.trace).toBe(trace);
    expect(outcome.result.kind).toBe(kind);
  });
});

describe('failover between the members of a pool', () => {
  test.each<[string, Script, string, string]>([
    ['tries another vendor first after a 429', { plan: 'a1:e a1:w b1', replies: { 'a1:e': [limited] } }, 'a1:e b1', 'responded'],
    [
      'tries the next member after the other vendor',
      { plan: 'a1:e a1:w b1', replies: { 'a1:e': [limited], b1: [fails] } },
      'a1:e b1 a1:w',
      'responded',
    ],
    [
      'tries the next member immediately without another vendor',
      { plan: 'a1:e a1:w a2:e a2:w', replies: { 'a1:e': [limitedFor(900)] } },
      'a1:e a1:w',
      'responded',
    ],
    ['tries an unhealthy member before other models', { plan: 'a1:e a2:e a1:w', replies: { 'a1:e': [limited] } }, 'a1:e a1:w', 'responded'],
    [
      'retries after the shortest delay if all members are limited',
      { plan: 'a1:e a1:w', replies: { 'a1:e': [limitedFor(300), answers], 'a1:w': [limitedFor(900)] } },
      'a1:e a1:w +300 a1:e(300)',
      'responded',
    ],
    [
      'retries the last member if the delays are equal',
      { plan: 'a1:e a1:w', replies: { 'a1:e': [limited], 'a1:w': [limited] } },
      'a1:e a1:w +1000 a1:w(1000)',
      'exhausted',
    ],
    [
      "doesn't try members of the same account after a 429",
      { plan: 'a1:e=x a1:n=x a1:w', replies: { 'a1:e': [limited], 'a1:w': [limitedFor(5)] } },
      'a1:e a1:w +5 a1:w(5)',
      'exhausted',
    ],
    [
      'retries a pool of one account after a delay',
      { plan: 'a1:e=x a1:n=x a2:e=x', replies: { 'a1:e': [limitedFor(5)] } },
      'a1:e +5 a1:e(5) a2:e',
      'responded',
    ],
    [
      "doesn't try members of the same account after another vendor has failed either",
      { plan: 'a1:e=x a1:n=x b1', replies: { 'a1:e': [limited], b1: [fails] } },
      'a1:e b1',
      'exhausted',
    ],
    [
      'tries the next member after an exhausted quota',
      { plan: 'a1:e a1:w', replies: { 'a1:e': [limitedFor(null)], 'a1:w': [limitedFor(null)] } },
      'a1:e a1:w',
      'exhausted',
    ],
    ['tries the next member after a failure', { plan: 'a1:e a1:w b1', replies: { 'a1:e': [unreachable] } }, 'a1:e a1:w', 'responded'],
    [
      'tries members of the same account after a failure',
      { plan: 'a1:e=x a1:w=x b1', replies: { 'a1:e': [fails] } },
      'a1:e a1:w',
      'responded',
    ],
    [
      'tries other models first after two members have failed',
      { plan: 'a1:e a1:w a1:n a1:s b1', replies: { 'a1:e': [fails], 'a1:w': [unreachable], b1: [fails], 'a1:n': [fails] } },
      'a1:e a1:w b1 a1:n a1:s',
      'responded',
    ],
    ["doesn't repeat a refused call at other members", { plan: 'a1:e a1:w b1', replies: { 'a1:e': [refuses] } }, 'a1:e b1', 'responded'],
    [
      'repeats a refused call if another member may have its state',
      { plan: 'a1:e a1:w b1', replies: { 'a1:e': [refuses] }, hasStateAtMember: true },
      'a1:e a1:w',
      'responded',
    ],
    [
      "tries all members first if one may have the call's state",
      {
        plan: 'a1:e a1:w a1:n b1',
        replies: { 'a1:e': [missing], 'a1:w': [missing] },
        hasStateAtMember: true,
      },
      'a1:e a1:w a1:n',
      'responded',
    ],
  ])('%s', async (_name, script, trace, kind) => {
    const outcome = await run(script);
    expect(outcome.trace).toBe(trace);
    expect(outcome.result.kind).toBe(kind);
  });
});

test('reports failures in the order of the attempts', async () => {
  expect(failuresOf(await run({ plan: 'a1 a2 b1', replies: { a1: [limited], b1: [refuses], a2: [limitedFor(1), fails] } }))).toEqual([
    'a1',
    'b1',
    'a2',
    'a2',
  ]);
  expect(failuresOf(await run({ plan: 'a1 b1', replies: { a1: [fails], b1: [aborted] } }))).toEqual(['a1']);
});

test('rethrows internal errors without trying other models', async () => {
  const bug = new TypeError('bug');
  await expect(run({ plan: 'a1 b1', replies: { a1: [bug] } })).rejects.toBe(bug);
});

test('never tries a model more than twice, and retries it only after a 429', async () => {
  const reply = fc.constantFrom<Reply>(answers, refuses, fails, limited, limitedFor(0), limitedFor(50), limitedFor(null));
  const names = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'];
  await fc.assert(
    fc.asyncProperty(
      fc.shuffledSubarray(names, { minLength: 1 }),
      fc.array(fc.tuple(reply, reply), { minLength: names.length, maxLength: names.length }),
      async (plan, replies) => {
        const script = Object.fromEntries(names.map((name, index) => [name, replies[index] ?? []]));
        const { result, trace } = await run({ plan: plan.join(' '), replies: script });
        const attempts = trace
          .split(' ')
          .filter((word) => word !== '' && !word.startsWith('+'))
          .map((word) => word.slice(0, 2));
        for (const name of plan) {
          const times = attempts.filter((model) => model === name).length;
          expect(times).toBeLessThanOrEqual(script[name]?.[0] instanceof VendorError && script[name]?.[0].status === 429 ? 2 : 1);
          if (result.kind === 'exhausted') expect(times).toBeGreaterThanOrEqual(1);
        }
        if (result.kind === 'responded') expect(result.response).toBe(attempts.at(-1));
        else expect(result).toMatchObject({ kind: 'exhausted', failures: attempts.map((model) => ({ candidate: { model } })) });
      },
    ),
    { numRuns: 500 },
  );
});
