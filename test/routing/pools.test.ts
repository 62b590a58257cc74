import { describe, expect, test } from '@jest/globals';
import type { Call } from '../../src/core/call.ts';
import { scanObject } from '../../src/core/json/spans.ts';
import { affinityOf } from '../../src/pipeline/call/affinity.ts';
import { buildPool, createMemberLoads, createPoolState, hashText, orderMembers, type PoolSource } from '../../src/routing/pools.ts';

const memberOf = (member: string, weight = 1, account: string | null = null): PoolSource => ({ member, weight, account });
const idle = createMemberLoads();
const state = createPoolState();

function hashOf(body: object, route: Call['route'] = 'chat'): number {
  const bytes = Buffer.from(JSON.stringify(body));
  return affinityOf({ route, body: bytes, spans: scanObject(bytes) } as Call, state).hash;
}

const systemPrompt = { role: 'system', content: 'You answer questions about the products of ACME. '.repeat(40) };

/** The hash of a conversation after some turns. All conversations have the same system prompt. */
function hashOfTurn(conversation: string, turns = 1): number {
  const later = Array.from({ length: turns - 1 }, (_, turn) => [
    { role: 'assistant', content: `answer ${turn}` },
    { role: 'user', content: `question ${turn}` },
  ]);
  return hashOf({ model: 'm', messages: [systemPrompt, { role: 'user', content: conversation }, ...later.flat()] });
}

const conversations = Array.from({ length: 1_000 }, (_, index) => `I have a question about order ${index}`);
const namesOf = (pool: ReturnType<typeof buildPool>, hash: number, loads = idle): string[] =>
  orderMembers(pool, { hash, member: null }, loads).map(({ name }) => name);
const choose = (pool: ReturnType<typeof buildPool>, conversation: string, turns = 1): string =>
  namesOf(pool, hashOfTurn(conversation, turns))[0] ?? '';

describe('the spread of 1,000 conversations with the same system prompt', () => {
  test.each<[string, readonly PoolSource[], Record<string, number>]>([
    ['two equal members', [memberOf('east'), memberOf('west')], { east: 500, west: 500 }],
    ['weights of 3 and 1', [memberOf('east', 3), memberOf('west', 1)], { east: 750, west: 250 }],
    ['a weight of 0', [memberOf('east', 0), memberOf('west'), memberOf('north')], { west: 500, north: 500 }],
    ['three equal members', [memberOf('east'), memberOf('west'), memberOf('north')], { east: 333, west: 333, north: 333 }],
  ])('spreads conversations within 10 %% of the weights: %s', (_name, sources, expected) => {
    const pool = buildPool('vendor', sources);
    const counts: Record<string, number> = {};
    for (const conversation of conversations) {
      const chosen = choose(pool, conversation);
      counts[chosen] = (counts[chosen] ?? 0) + 1;
    }
    expect(Object.keys(counts).toSorted()).toEqual(Object.keys(expected).toSorted());
    for (const [name, share] of Object.entries(expected)) expect(Math.abs((counts[name] ?? 0) - share) / share).toBeLessThan(0.1);
  });
});

test('spreads a very large number of conversations by weight', () => {
  const pool = buildPool('vendor', [memberOf('a', 5), memberOf('b', 3), memberOf('c', 1.5), memberOf('d', 0.5)]);
  const counts = new Map<string, number>();
  for (let index = 0; index < 100_000; index += 1) {
    const [chosen = ''] = namesOf(pool, hashText(`${index}`));
    counts.set(chosen, (counts.get(chosen) ?? 0) + 1);
  }
  for (const [name, share] of Object.entries({ a: 0.5, b: 0.3, c: 0.15, d: 0.05 }))
    expect(Math.abs((counts.get(name) ?? 0) / 100_000 - share) / share).toBeLessThan(0.03);
});

test('adds up the weights of pool members that share an account', () => {
  const shared = buildPool('vendor', [memberOf('a', 1, 'shared'), memberOf('b', 1, 'shared'), memberOf('c', 2)]);
  const chosen = conversations.map((each) => choose(shared, each));
  const countOf = (name: string): number => chosen.filter((each) => each === name).length;
  expect(Math.abs(countOf('c') - 500)).toBeLessThan(50);
  expect(Math.min(countOf('a'), countOf('b'))).toBeGreaterThan(200);
  for (const each of conversations.filter((_, index) => chosen[index] !== 'c')) expect(namesOf(shared, hashOfTurn(each)).at(-1)).toBe('c');
});

describe('the turns of a conversation', () => {
  const pool = buildPool('vendor', [memberOf('east', 3), memberOf('west'), memberOf('north')]);

  test('sends all turns of a conversation to the same member', () => {
    for (const conversation of conversations.slice(0, 50))
      expect(new Set(Array.from({ length: 10 }, (_, turn) => choose(pool, conversation, turn + 1))).size).toBe(1);
  });

  test('moves only the conversations of a member that is added or removed', () => {
    const without = buildPool('vendor', [memberOf('east', 3), memberOf('west')]);
    const moved = conversations.filter((each) => choose(pool, each) !== choose(without, each));
    expect(moved.every((each) => choose(pool, each) === 'north')).toBe(true);
    expect(moved.length).toBeGreaterThan(150);
    expect(moved.length).toBeLessThan(250);
  });

  test('spreads conversations the same way regardless of the order of pool members', () => {
    const reversed = buildPool('vendor', [memberOf('north'), memberOf('west'), memberOf('east', 3)]);
    for (const each of conversations) expect(choose(reversed, each)).toBe(choose(pool, each));
  });

  test.each<[string, object, object, Call['route']]>([
    [
      'a cache breakpoint moves on',
      { messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] }] },
      {
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'hi' }] },
          { role: 'assistant', content: 'x' },
        ],
      },
      'messages',
    ],
    [
      'the client later sends the text as a string',
      { messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }] },
      {
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: 'x' },
        ],
      },
      'messages',
    ],
    [
      'the system prompt changes',
      {
        messages: [
          { role: 'system', content: 'It is 10:00.' },
          { role: 'user', content: 'hi' },
        ],
      },
      {
        messages: [
          { role: 'developer', content: 'It is 10:01.' },
          { role: 'user', content: 'hi' },
        ],
      },
      'chat',
    ],
    [
      'a list of responses items continues a string',
      { input: 'hi' },
      {
        input: [
          { role: 'user', content: [{ type: 'input_text', text: 'hi' }] },
          { type: 'reasoning', id: 'x' },
        ],
      },
      'responses',
    ],
    ['the vendor stores the conversation', { conversation: 'conv_1', input: 'hi' }, { conversation: 'conv_1', input: 'more' }, 'responses'],
  ])('recognizes a conversation if %s', (_name, first, second, route) => {
    expect(hashOf(second, route)).toBe(hashOf(first, route));
  });

  test('treats a different first message as a new conversation', () => {
    expect(new Set(conversations.map((each) => hashOfTurn(each))).size).toBe(1_000);
  });

  test.each([1, 2])('distinguishes conversations that begin with the same long instructions, in %i parts', (parts) => {
    const instructions = 'Follow these rules of the repository. '.repeat(1_000);
    const contentOf = (text: string) =>
      parts === 1
        ? `${instructions}${text}`
        : [
            { type: 'text', text: instructions },
            { type: 'text', text },
          ];
    const hashes = conversations.map((each) => hashOf({ messages: [{ role: 'user', content: contentOf(each) }] }, 'messages'));
    expect(new Set(hashes).size).toBe(1_000);
  });

  test("distinguishes conversations by images and other parts that aren't text", () => {
    const withImage = (url: string) => hashOf({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] });
    expect(withImage('https://example.com/1')).not.toBe(withImage('https://example.com/2'));
    const result = (id: string) =>
      hashOf({ messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: id }] }] }, 'messages');
    expect(result('one')).toBe(result('one'));
    expect(result('one')).not.toBe(result('two'));
  });
});

describe('members with many requests in flight', () => {
  const pool = buildPool('vendor', [memberOf('east', 3), memberOf('west')]);
  const hash = conversations.map((each) => hashOfTurn(each)).find((each) => namesOf(pool, each)[0] === 'west') ?? 0;

  test("spreads a conversation's parallel calls once its member has 1.25 times its fair share", () => {
    const loads = createMemberLoads();
    for (let sent = 0; sent < 400; sent += 1) loads.begin(`vendor/${namesOf(pool, hash, loads)[0]}`);
    expect(loads.count('vendor/west')).toBe(125);
    expect(loads.count('vendor/east')).toBe(275);
  });

  test('sends a few parallel calls of a conversation to the same member', () => {
    const loads = createMemberLoads();
    const ends = Array.from({ length: 16 }, () => loads.begin('vendor/west'));
    expect(namesOf(pool, hash, loads)).toEqual(['east', 'west']);
    for (const end of ends.slice(0, 4)) {
      end();
      end();
    }
    expect(loads.count('vendor/west')).toBe(12);
    expect(namesOf(pool, hash, loads)).toEqual(['west', 'east']);
  });
});

describe('a call that refers to a response', () => {
  const pool = buildPool('vendor', [
    memberOf('east', 0),
    memberOf('west'),
    memberOf('north'),
    memberOf('south', 1, 'x'),
    memberOf('up', 1, 'x'),
  ]);
  const order = (member: string) => orderMembers(pool, { hash: 1, member }, idle).map(({ name }) => name);

  test('sends the call to the member that stores the response', () => {
    expect(order('vendor/west')).toEqual(['west']);
    expect(order('vendor/up')).toEqual(['up', 'south']);
  });

  test("sends the call to the member that stores the response, even if it's draining", () => {
    expect(order('vendor/east')).toEqual(['east']);
  });

  test('sends the call to any member if the member that stored the response no longer exists', () => {
    expect(order('vendor/gone').toSorted()).toEqual(['north', 'south', 'up', 'west']);
  });
});
