import { describe, expect, test } from '@jest/globals';
import { parseRetryAfter } from '../../src/vendors/retry-after.ts';

const now = Date.parse('2026-11-20T10:00:00Z');
const empty = Buffer.alloc(0);

type Headers = Record<string, string | string[]>;

function wait(headers: Headers, body: unknown = null): number | null | undefined {
  return parseRetryAfter(headers, body === null ? empty : Buffer.from(JSON.stringify(body)), now);
}

describe('the header retry-after', () => {
  test.each([
    ['0', 0],
    ['5', 5000],
    ['120', 120_000],
    ['0.5', 500],
    ['1.5', 1500],
    ['0.0004', 0],
    ['-3', 0],
    [' 7 ', 7000],
    ['Fri, 20 Nov 2026 10:00:30 GMT', 30_000],
    ['Fri, 20 Nov 2026 09:59:30 GMT', 0],
    ['Friday, 20-Nov-26 10:00:30 GMT', 30_000],
    ['Fri Nov 20 10:00:30 2026', 30_000],
    ['2026-11-20T10:00:30Z', 30_000],
    ['2026-11-20T11:00:30+01:00', 30_000],
  ])('reads retry-after: %s as %p ms', (value, ms) => {
    expect(wait({ 'retry-after': value })).toBe(ms);
  });

  test.each([
    '',
    'soon',
    'in 5',
    'later 7',
    '5s',
    '1e3',
    '5,5',
    '0x10',
    '１',
    'Friday',
    'Fri, 5',
    '2026-11-20',
    'NaN',
    'Infinity',
    '9'.repeat(400),
  ])('ignores retry-after: %s', (value) => {
    expect(wait({ 'retry-after': value })).toBeUndefined();
  });

  test('reads retry-after once if the header is repeated', () => {
    expect(wait({ 'retry-after': ['5', '5'] })).toBe(5000);
  });
});

describe('retry delays in milliseconds', () => {
  test.each<[string, Headers, number]>([
    ['retry-after-ms', { 'retry-after-ms': '250', 'retry-after': '9' }, 250],
    ['x-ms-retry-after-ms', { 'x-ms-retry-after-ms': '250.4', 'retry-after': '9' }, 250],
    ['retry-after-ms if both are sent', { 'retry-after-ms': '100', 'x-ms-retry-after-ms': '200' }, 100],
    ['zero milliseconds', { 'retry-after-ms': '0', 'retry-after': '9' }, 0],
    ['a negative delay as zero', { 'retry-after-ms': '-5', 'retry-after': '9' }, 0],
    ['retry-after if it is unreadable', { 'retry-after-ms': 'soon', 'retry-after': '9' }, 9000],
  ])('reads the retry delay in milliseconds: %s', (_name, headers, ms) => {
    expect(wait(headers)).toBe(ms);
  });
});

describe('a retry delay in the body', () => {
  const retryInfo = (retryDelay: unknown): unknown => ({
    error: {
      code: 429,
      details: [
        { '@type': 'type.googleapis.com/google.rpc.Help' },
        null,
        'x',
        { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay },
      ],
    },
  });

  test.each<[unknown, number | undefined]>([
    ['37s', 37_000],
    ['0.250s', 250],
    ['1.000000001s', 1000],
    ['0s', 0],
    ['soon', undefined],
    [37, undefined],
  ])('reads retryDelay %p in the body as %p ms', (delay, ms) => {
    expect(wait({}, retryInfo(delay))).toBe(ms);
    // In the format of Google's chat endpoint.
    expect(wait({}, [retryInfo(delay)])).toBe(ms);
  });

  test('prefers a retry delay in the body to reset headers', () => {
    expect(wait({ 'retry-after': '2', 'x-ratelimit-reset-requests': '9s' }, retryInfo('37s'))).toBe(2000);
    expect(wait({ 'x-ratelimit-reset-requests': '9s' }, retryInfo('37s'))).toBe(37_000);
  });

  test("finds no retry delay in a body that isn't an object", () => {
    for (const body of ['x', [], [{ error: 1 }], { error: 'x' }, { error: { details: {} } }]) expect(wait({}, body)).toBeUndefined();
    expect(parseRetryAfter({}, Buffer.from('<html>'), now)).toBeUndefined();
  });
});

describe('headers that say when a rate limit resets', () => {
  test.each<[string, Headers, number | undefined]>([
    ['seconds', { 'x-ratelimit-reset-requests': '1s' }, 1000],
    ['fractions', { 'x-ratelimit-reset-requests': '1.5s' }, 1500],
    ['minutes', { 'x-ratelimit-reset-tokens': '6m0s' }, 360_000],
    ['milliseconds', { 'x-ratelimit-reset-tokens': '120ms' }, 120],
    ['hours', { 'x-ratelimit-reset-tokens': '1h2m3.5s' }, 3_723_500],
    ['zero', { 'x-ratelimit-reset-tokens': '0s' }, 0],
    ['the latest of several', { 'x-ratelimit-reset-requests': '1s', 'x-ratelimit-reset-tokens': '6m0s' }, 360_000],
    [
      'only limits that are used up',
      {
        'x-ratelimit-reset-requests': '1s',
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-tokens': '6m0s',
        'x-ratelimit-remaining-tokens': '12',
      },
      1000,
    ],
    ['nothing if no limit is used up', { 'x-ratelimit-reset-requests': '1s', 'x-ratelimit-remaining-requests': '3' }, undefined],
    ['an RFC 3339 time', { 'anthropic-ratelimit-requests-reset': '2026-11-20T10:00:45Z' }, 45_000],
    [
      "the latest of Anthropic's limits",
      {
        'anthropic-ratelimit-requests-reset': '2026-11-20T10:00:05Z',
        'anthropic-ratelimit-input-tokens-reset': '2026-11-20T10:01:00Z',
        'anthropic-ratelimit-output-tokens-reset': '2026-11-20T10:09:00Z',
        'anthropic-ratelimit-output-tokens-remaining': '100',
      },
      60_000,
    ],
    ['a time in the past', { 'anthropic-ratelimit-tokens-reset': '2026-11-20T09:00:00Z' }, 0],
    [
      'nothing from unreadable headers',
      { 'x-ratelimit-reset-requests': 'soon', 'anthropic-ratelimit-tokens-reset': 'later', 'x-ratelimit-reset-tokens': '' },
      undefined,
    ],
    ['an unreadable one and a valid one', { 'x-ratelimit-reset-requests': 'soon', 'x-ratelimit-reset-tokens': '2s' }, 2000],
    [
      'nothing from other headers',
      { 'x-ratelimit-limit-requests': '5', 'anthropic-ratelimit-requests-limit': '5', 'x-request-id': '7s' },
      undefined,
    ],
  ])('reads reset headers: %s', (_name, headers, ms) => {
    expect(wait(headers)).toBe(ms);
  });
});

describe("limits that don't reset by waiting", () => {
  test.each<[string, unknown]>([
    ["OpenAI's quota by code", { error: { type: 'requests', code: 'insufficient_quota' } }],
    ["OpenAI's quota by type", { error: { type: 'insufficient_quota', code: null } }],
    [
      "Anthropic's spend limit",
      { type: 'error', error: { type: 'rate_limit_error', details: { error_code: 'enforced_spend_limit_reached' } } },
    ],
  ])('finds no retry delay for %s, regardless of the headers', (_name, body) => {
    expect(wait({ 'retry-after': '5' }, body)).toBeNull();
    expect(wait({}, body)).toBeNull();
  });
});
