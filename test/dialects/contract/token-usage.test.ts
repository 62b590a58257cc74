import { describe, expect, test } from '@jest/globals';
import type { Tokens } from '../../../src/core/pricing.ts';
import { noTokens } from '../../../src/core/pricing.ts';
import {
  createMessagesUsage,
  estimateTokens,
  parseChatUsage,
  parseMessagesUsage,
  parseResponsesUsage,
} from '../../../src/dialects/contract/token-usage.ts';

test('subtracts cached and cache-write tokens from the input tokens of a response', () => {
  const usage = { input_tokens: 100, output_tokens: 5, input_tokens_details: { cached_tokens: 30, cache_write_tokens: 60 } };
  expect(parseResponsesUsage(usage)).toEqual({ input: 10, cachedInput: 30, cacheWrite: 60, cacheWrite1h: 0, output: 5 });
});

describe('parseChatUsage', () => {
  test.each<[string, unknown, Partial<Tokens> | null]>([
    ['plain counts', { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }, { input: 9, output: 2 }],
    [
      'cached tokens as part of the prompt',
      { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 64 } },
      { input: 36, cachedInput: 64, output: 5 },
    ],
    [
      'everything cached',
      { prompt_tokens: 64, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 64 } },
      { input: 0, cachedInput: 64, output: 5 },
    ],
    [
      'zero cached tokens',
      { prompt_tokens: 9, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 0 }, prompt_cache_hit_tokens: 5 },
      { input: 9, output: 2 },
    ],
    [
      'cached tokens outside the prompt count',
      { prompt_tokens: 100, completion_tokens: 5, prompt_cache_hit_tokens: 30, prompt_cache_miss_tokens: 70 },
      { input: 70, cachedInput: 30, output: 5 },
    ],
    [
      'cache reads and writes as part of the prompt',
      { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 30, cache_write_tokens: 60 } },
      { input: 10, cachedInput: 30, cacheWrite: 60, output: 5 },
    ],
    [
      "LiteLLM's name for tokens written to the cache",
      { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cache_creation_tokens: 60 } },
      { input: 40, cacheWrite: 60, output: 5 },
    ],
    ['null details', { prompt_tokens: 9, completion_tokens: 2, prompt_tokens_details: null }, { input: 9, output: 2 }],
    ['explicit zeros', { prompt_tokens: 0, completion_tokens: 0 }, {}],
    [
      'reasoning outside the completion tokens (xAI, Google)',
      { prompt_tokens: 9, completion_tokens: 2, total_tokens: 111, completion_tokens_details: { reasoning_tokens: 100 } },
      { input: 9, output: 102 },
    ],
    ['only the prompt, as embeddings report', { prompt_tokens: 8, total_tokens: 8 }, { input: 8 }],
    ['only the output and the total', { completion_tokens: 3, total_tokens: 10 }, { input: 7, output: 3 }],
    ['only output tokens', { completion_tokens: 3 }, null],
    ['only prompt tokens', { prompt_tokens: 3 }, null],
    ['an invalid prompt count', { prompt_tokens: 1.5, completion_tokens: 2 }, null],
    ['an invalid output count next to the total', { prompt_tokens: 9, completion_tokens: -1, total_tokens: 11 }, { input: 9, output: 2 }],
    ['a total that is smaller than the output', { completion_tokens: 3, total_tokens: 1 }, { input: 0, output: 3 }],
    [
      'more cached tokens than prompt tokens',
      { prompt_tokens: 5, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 8 } },
      { input: 0, cachedInput: 5, output: 1 },
    ],
    [
      'reasoning tokens as part of the output',
      { prompt_tokens: 5, completion_tokens: 90, completion_tokens_details: { reasoning_tokens: 80 } },
      { input: 5, output: 90 },
    ],
    ['no usage', undefined, null],
    ['null', null, null],
    ['an empty object', {}, null],
    ["counts that aren't numbers", { prompt_tokens: '9', completion_tokens: -1 }, null],
    ['a list', [9, 2], null],
  ])('reads the token counts in a chat response: %s', (_name, usage, tokens) => {
    expect(parseChatUsage(usage)).toEqual(tokens && { ...noTokens, ...tokens });
  });
});

describe('parseMessagesUsage', () => {
  test.each<[string, unknown, Partial<Tokens> | null]>([
    ['plain counts', { input_tokens: 10, output_tokens: 5 }, { input: 10, output: 5 }],
    [
      'cache reads and writes apart from the input',
      { input_tokens: 10, cache_creation_input_tokens: 200, cache_read_input_tokens: 3000, output_tokens: 5 },
      { input: 10, cacheWrite: 200, cachedInput: 3000, output: 5 },
    ],
    [
      'writes split by their lifetime',
      {
        input_tokens: 10,
        cache_creation_input_tokens: 300,
        cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 200 },
        output_tokens: 5,
      },
      { input: 10, cacheWrite: 100, cacheWrite1h: 200, output: 5 },
    ],
    [
      'only 1-hour writes listed separately',
      { input_tokens: 1, cache_creation_input_tokens: 300, cache_creation: { ephemeral_1h_input_tokens: 200 }, output_tokens: 5 },
      { input: 1, cacheWrite: 100, cacheWrite1h: 200, output: 5 },
    ],
    [
      'a split without the total',
      { input_tokens: 1, cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 6 }, output_tokens: 5 },
      { input: 1, cacheWrite: 4, cacheWrite1h: 6, output: 5 },
    ],
    [
      'a split that exceeds its total',
      { input_tokens: 1, cache_creation_input_tokens: 5, cache_creation: { ephemeral_1h_input_tokens: 6 }, output_tokens: 5 },
      { input: 1, cacheWrite1h: 6, output: 5 },
    ],
    [
      'a split that is smaller than its total',
      {
        input_tokens: 1,
        cache_creation_input_tokens: 1_000,
        cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
        output_tokens: 5,
      },
      { input: 1, cacheWrite: 1_000, output: 5 },
    ],
    [
      'null counts',
      { input_tokens: 3, cache_creation_input_tokens: null, cache_read_input_tokens: null, cache_creation: null, output_tokens: 5 },
      { input: 3, output: 5 },
    ],
    ['explicit zeros', { input_tokens: 0, output_tokens: 0 }, {}],
    ['no usage', undefined, null],
    ['an empty object', {}, null],
    ['no counts', { service_tier: 'standard' }, null],
  ])('reads the token counts in a message: %s', (_name, usage, tokens) => {
    expect(parseMessagesUsage(usage, null)).toEqual(tokens && { ...noTokens, ...tokens });
  });

  const earlier: Tokens = { input: 10, cachedInput: 20, cacheWrite: 30, cacheWrite1h: 40, output: 1 };

  test.each<[string, unknown, Partial<Tokens>]>([
    ['the output alone', { output_tokens: 15 }, { output: 15 }],
    [
      'all counts repeated',
      { input_tokens: 11, cache_read_input_tokens: 21, cache_creation_input_tokens: 75, output_tokens: 15 },
      { input: 11, cachedInput: 21, cacheWrite: 35, output: 15 },
    ],
    ['nothing but zeros', { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 0 }, {}],
    ['zero input with output', { input_tokens: 0, output_tokens: 15 }, { output: 15 }],
    ['uncached input that moved to the cache', { input_tokens: 0, cache_read_input_tokens: 30 }, { input: 0, cachedInput: 30 }],
    ['nothing', {}, {}],
    ['no usage', undefined, {}],
  ])('later token counts in a stream replace earlier ones: %s', (_name, usage, tokens) => {
    expect(parseMessagesUsage(usage, earlier)).toEqual({ ...earlier, ...tokens });
  });

  test("doesn't count one-hour cache writes twice", () => {
    const first = parseMessagesUsage(
      {
        input_tokens: 1,
        cache_creation_input_tokens: 300,
        cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 200 },
      },
      null,
    );
    expect(parseMessagesUsage({ cache_creation_input_tokens: 300, output_tokens: 5 }, first)).toEqual({
      ...noTokens,
      input: 1,
      cacheWrite: 100,
      cacheWrite1h: 200,
      output: 5,
    });
  });
});

describe('createMessagesUsage', () => {
  const compaction = {
    type: 'compaction',
    ...{ input_tokens: 1_000, output_tokens: 100, cache_read_input_tokens: 7, cache_creation_input_tokens: 50 },
    cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 },
  };
  const message = { type: 'message', input_tokens: 10, output_tokens: 5 };

  test('adds the compactions of the prompt, which the other counts leave out', () => {
    const usage = createMessagesUsage();
    usage.read({ input_tokens: 10, output_tokens: 5, iterations: [compaction, message, compaction] });
    expect(usage.tokens()).toEqual({ input: 2_010, cachedInput: 14, cacheWrite: 40, cacheWrite1h: 60, output: 205 });
    expect(usage.isComplete()).toBe(true);
  });

  test('adds the tokens of an advisor, but not those of a fallback model', () => {
    const usage = createMessagesUsage();
    const advisor = { type: 'advisor_message', model: 'large', input_tokens: 300, output_tokens: 40 };
    const fallback = { type: 'fallback_message', model: 'large', input_tokens: 10, output_tokens: 5 };
    usage.read({ input_tokens: 10, output_tokens: 5, iterations: [message, advisor, fallback] });
    expect(usage.tokens()).toEqual({ ...noTokens, input: 310, output: 45 });
  });

  test("doesn't count the iterations of a stream twice", () => {
    const usage = createMessagesUsage();
    usage.read({ input_tokens: 10, output_tokens: 1, iterations: [compaction] });
    usage.read({ output_tokens: 3 });
    usage.read({ output_tokens: 5, iterations: [compaction, message] });
    usage.read({ output_tokens: 6, iterations: null });
    expect(usage.tokens()).toEqual({ input: 1_010, cachedInput: 7, cacheWrite: 20, cacheWrite1h: 30, output: 106 });
  });

  test.each([[null], ['x'], [{}], [[null, 7, 'compaction', { type: 'compaction' }, { type: 'compaction', input_tokens: -1 }]]])(
    'ignores unreadable iterations: %j',
    (iterations) => {
      const usage = createMessagesUsage();
      usage.read({ input_tokens: 10, output_tokens: 5, iterations });
      expect(usage.tokens()).toEqual({ ...noTokens, input: 10, output: 5 });
    },
  );
});

test.each([
  [0, 0],
  [1, 1],
  [4, 1],
  [5, 2],
])('estimates that %p characters are %p tokens', (characters, tokens) => {
  expect(estimateTokens(characters)).toBe(tokens);
});
