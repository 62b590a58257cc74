import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Candidate } from '../../src/core/call.ts';
import { VendorError } from '../../src/core/errors.ts';
import type { ChainResult } from '../../src/failover/chain.ts';
import { runChain } from '../../src/failover/chain.ts';

/** `a1` is model a1 of provider a. */
function candidateOf(name: string): Candidate {
  return { id: `${name[0]}/${name}`, provider: name[0] ?? '', model: name, dialect: 'chat', price: null, maxOutputTokens: null };
}

const answers = 'ok';
const refuses = new VendorError('status', 'refused', { status: 400 });
const fails = new VendorError('status', 'failed', { status: 500 });
const unreachable = new VendorError('connect', 'no connection');
const limited = new VendorError('status', 'limited', { status: 429 });
const limitedFor = (retryAfterMs: number | null): VendorError => new VendorError('status', 'limited', { status: 429, retryAfterMs });
const aborted = new VendorError('aborted', 'gone');

type Reply = typeof answers | Error;

interface Told {
  readonly result: ChainResult<string>;
  /** What happened: `a1` an attempt, `+500` a pause before it. */
  readonly story: string;
}

interface Script {
  readonly plan: string;
  /** Replies of each model, one for each time that it is asked; the last one stays. */
  readonly replies: Readonly<Record<string, readonly Reply[]>>;
  readonly deadlineMs?: number;
  /** What each attempt takes. */
  readonly attemptMs?: number;
  /** The call is stopped while it pauses. */
  readonly stopsInPause?: boolean;
}

async function run({ plan, replies, deadlineMs, attemptMs = 10, stopsInPause = false }: Script): Promise<Told> {
  let now = 0;
  const story: string[] = [];
  const asked = new Map<string, number>();
  const result = await runChain<string>({
    candidates: plan.split(' ').filter(Boolean).map(candidateOf),
    async attempt({ model }, waitMs) {
      const times = asked.get(model) ?? 0;
      asked.set(model, times + 1);
      story.push(waitMs > 0 ? `${model}(${waitMs})` : model);
      now += attemptMs;
      const reply = replies[model]?.[times] ?? replies[model]?.at(-1) ?? answers;
      if (reply === answers) return model;
      throw reply;
    },
    remainingMs: () => (deadlineMs === undefined ? null : deadlineMs - now),
    async pause(waitMs) {
      story.push(`+${waitMs}`);
      if (stopsInPause) throw aborted;
      now += waitMs;
    },
  });
  return { result, story: story.join(' ') };
}

function failuresOf({ result }: Told): string[] {
  return result.kind === 'answered' ? [] : result.failures.map(({ candidate }) => candidate.model);
}

describe('the order of attempts', () => {
  test.each<[string, Script, string, string]>([
    ['the first that answers ends the chain', { plan: 'a1 b1', replies: {} }, 'a1', 'answered'],
    ['a failed one is followed by the next', { plan: 'a1 a2 b1', replies: { a1: [fails], a2: [unreachable] } }, 'a1 a2 b1', 'answered'],
    ['a refusal is followed by the next', { plan: 'a1 b1', replies: { a1: [refuses] } }, 'a1 b1', 'answered'],
    ['all refuse', { plan: 'a1 b1', replies: { a1: [refuses], b1: [refuses] } }, 'a1 b1', 'exhausted'],
    [
      'all fail, and none is asked twice',
      { plan: 'a1 a2 b1', replies: { a1: [fails], a2: [fails], b1: [fails] } },
      'a1 a2 b1',
      'exhausted',
    ],
    ['no candidates', { plan: '', replies: {} }, '', 'exhausted'],

    ['after a 429 comes another vendor, at once', { plan: 'a1 a2 b1', replies: { a1: [limited] } }, 'a1 b1', 'answered'],
    [
      'other models of its vendor come behind the others',
      { plan: 'a1 a2 b1 a3 c1', replies: { a1: [limited], b1: [fails], c1: [fails] } },
      'a1 b1 c1 a2',
      'answered',
    ],
    ['their order stays', { plan: 'a1 a2 b1 a3', replies: { a1: [limited], b1: [fails], a2: [fails] } }, 'a1 b1 a2 a3', 'answered'],
    ['two vendors with 429', { plan: 'a1 a2 b1 b2', replies: { a1: [limited], b1: [limited] } }, 'a1 b1 a2', 'answered'],
    [
      'the second moves behind the first',
      { plan: 'a1 a2 b1 b2 c1', replies: { a1: [limited], b1: [limited], c1: [fails], a2: [fails] } },
      'a1 b1 c1 a2 b2',
      'answered',
    ],
    [
      'a 429 of a vendor whose others have been asked already',
      { plan: 'a1 b1', replies: { a1: [fails], b1: [limitedFor(300), answers] } },
      'a1 b1 +300 b1(300)',
      'answered',
    ],
    [
      'the model with the 429 is not asked again where another vendor was left',
      { plan: 'a1 b1', replies: { a1: [limited], b1: [fails] } },
      'a1 b1',
      'exhausted',
    ],

    [
      'with one vendor alone: wait, the same once more',
      { plan: 'a1', replies: { a1: [limitedFor(700), answers] } },
      'a1 +700 a1(700)',
      'answered',
    ],
    ['a second when no pause is named', { plan: 'a1', replies: { a1: [limited, answers] } }, 'a1 +1000 a1(1000)', 'answered'],
    ['a pause of nothing', { plan: 'a1', replies: { a1: [limitedFor(0), answers] } }, 'a1 +0 a1', 'answered'],
    ['retried once, then the next', { plan: 'a1 a2', replies: { a1: [limited] } }, 'a1 +1000 a1(1000) a2', 'answered'],
    ['the retry may fail in other ways', { plan: 'a1 a2', replies: { a1: [limited, refuses] } }, 'a1 +1000 a1(1000) a2', 'answered'],
    [
      'each model is retried once',
      { plan: 'a1 a2', replies: { a1: [limitedFor(5)], a2: [limitedFor(7)] } },
      'a1 +5 a1(5) a2 +7 a2(7)',
      'exhausted',
    ],
    [
      'the last vendor left is waited for',
      { plan: 'a1 a2 b1', replies: { a1: [limited], b1: [fails], a2: [limitedFor(9), answers] } },
      'a1 b1 a2 +9 a2(9)',
      'answered',
    ],
    ['a limit that no wait ends: the next at once', { plan: 'a1 a2', replies: { a1: [limitedFor(null)] } }, 'a1 a2', 'answered'],
    ['a limit that no wait ends, alone', { plan: 'a1', replies: { a1: [limitedFor(null)] } }, 'a1', 'exhausted'],

    [
      'no wait beyond the deadline: the next',
      { plan: 'a1 a2', replies: { a1: [limitedFor(5000)] }, deadlineMs: 1000 },
      'a1 a2',
      'answered',
    ],
    [
      'a wait within the deadline',
      { plan: 'a1', replies: { a1: [limitedFor(900), answers] }, deadlineMs: 1000 },
      'a1 +900 a1(900)',
      'answered',
    ],
    ['after the deadline nobody is asked', { plan: 'a1 b1 c1', replies: { a1: [fails], b1: [fails] }, deadlineMs: 20 }, 'a1 b1', 'aborted'],
    ['a deadline that has passed at the start', { plan: 'a1', replies: {}, deadlineMs: 0 }, '', 'aborted'],
    ['an aborted attempt ends the chain', { plan: 'a1 b1', replies: { a1: [aborted] } }, 'a1', 'aborted'],
    ['stopped in a pause', { plan: 'a1 a2', replies: { a1: [limitedFor(5)] }, stopsInPause: true }, 'a1 +5', 'aborted'],
  ])('%s', async (_name, script, story, kind) => {
    const told = await run(script);
    expect(told.story).toBe(story);
    expect(told.result.kind).toBe(kind);
  });
});

test('failures are told in the order in which they happened, retries too, our own stop not', async () => {
  expect(failuresOf(await run({ plan: 'a1 a2 b1', replies: { a1: [limited], b1: [refuses], a2: [limitedFor(1), fails] } }))).toEqual([
    'a1',
    'b1',
    'a2',
    'a2',
  ]);
  expect(failuresOf(await run({ plan: 'a1 b1', replies: { a1: [fails], b1: [aborted] } }))).toEqual(['a1']);
});

test('a fault of ours ends the chain and is not swallowed', async () => {
  const fault = new TypeError('ours');
  await expect(run({ plan: 'a1 b1', replies: { a1: [fault] } })).rejects.toBe(fault);
});

test('whatever vendors do, the chain ends: each model at most twice, twice only after its 429', async () => {
  const reply = fc.constantFrom<Reply>(answers, refuses, fails, limited, limitedFor(0), limitedFor(50), limitedFor(null));
  const names = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'];
  await fc.assert(
    fc.asyncProperty(
      fc.shuffledSubarray(names, { minLength: 1 }),
      fc.array(fc.tuple(reply, reply), { minLength: names.length, maxLength: names.length }),
      async (plan, replies) => {
        const script = Object.fromEntries(names.map((name, index) => [name, replies[index] ?? []]));
        const { result, story } = await run({ plan: plan.join(' '), replies: script });
        const attempts = story
          .split(' ')
          .filter((word) => word !== '' && !word.startsWith('+'))
          .map((word) => word.slice(0, 2));
        for (const name of plan) {
          const times = attempts.filter((model) => model === name).length;
          expect(times).toBeLessThanOrEqual(script[name]?.[0] instanceof VendorError && script[name]?.[0].status === 429 ? 2 : 1);
          if (result.kind === 'exhausted') expect(times).toBeGreaterThanOrEqual(1);
        }
        if (result.kind === 'answered') expect(result.response).toBe(attempts.at(-1));
        else expect(result).toMatchObject({ kind: 'exhausted', failures: attempts.map((model) => ({ candidate: { model } })) });
      },
    ),
    { numRuns: 500 },
  );
});
