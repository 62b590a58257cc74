import { expect, test } from '@jest/globals';
import { applyKeyChange, parseGraceSeconds, parseKeyInput } from '../../src/keys/key-input.ts';

const now = Date.parse('2026-11-20T10:00:00Z');

test('a new key needs only a name and is unlimited without ceilings', () => {
  expect(parseKeyInput({ name: 'ci' }, now)).toEqual({
    name: 'ci',
    models: null,
    requiredTags: [],
    expiresAt: null,
    onBudgetStoreDown: null,
    defaultMaxOutputTokens: null,
    ceilings: {
      calls: { limit: null, window: 'month' },
      cost: { limit: null, window: 'month' },
      rpm: { limit: null, window: 'minute' },
      tpm: { limit: null, window: 'minute' },
    },
  });
});

test("converts a key's cost ceiling to nano-dollars and times to epoch milliseconds", () => {
  const settings = parseKeyInput(
    {
      name: 'ci',
      models: ['standard', 'openai/gpt-4o'],
      ceilings: { calls: 0, cost: 0.1, rpm: 60, tpm: null },
      windows: { cost: 'day' },
      expires_at: '2027-01-01T01:00:00+01:00',
    },
    now,
  );
  expect(settings.ceilings).toEqual({
    calls: { limit: 0, window: 'month' },
    cost: { limit: 100_000_000, window: 'day' },
    rpm: { limit: 60, window: 'minute' },
    tpm: { limit: null, window: 'minute' },
  });
  expect(settings.models).toEqual(['standard', 'openai/gpt-4o']);
  expect(settings.expiresAt).toBe(Date.parse('2027-01-01T00:00:00Z'));
});

test('reports all invalid settings of a new key in one error', () => {
  const read = (): unknown =>
    parseKeyInput(
      {
        ...{ models: 'all', ceilings: { rpm: 1.5, cost: -1 }, windows: { calls: 'week' }, expires_at: 'tomorrow', colour: 'red' },
        ...{ on_budget_store_down: 'maybe', default_max_output_tokens: 0 },
      },
      now,
    );
  expect(read).toThrow(expect.objectContaining({ code: 'bad_request' }));
  for (const place of [
    'name:',
    'models:',
    'ceilings.rpm:',
    'ceilings.cost:',
    'windows.calls:',
    'expires_at: must be a time in RFC 3339',
    'on_budget_store_down:',
    'default_max_output_tokens:',
    'colour',
  ]) {
    expect(read).toThrow(place);
  }
});

test('also reports contradictory settings of a new key', () => {
  const read = (): unknown => parseKeyInput({ name: 'a', windows: { calls: 'day' }, expires_at: '2026-11-20T10:00:00Z' }, now);
  expect(read).toThrow('expires_at: must be in the future; windows.calls: requires a ceiling named calls');
});

test.each([null, 'text', [], 7])('rejects %j as a body', (body) => {
  expect(() => parseKeyInput(body, now)).toThrow(expect.objectContaining({ code: 'bad_request' }));
});

test('rotating a key has no grace period by default', () => {
  expect(parseGraceSeconds(undefined)).toBe(0);
  expect(parseGraceSeconds({})).toBe(0);
  expect(parseGraceSeconds({ grace_seconds: 60 })).toBe(60);
  for (const wrong of [{ grace_seconds: -1 }, { grace_seconds: '60' }, { grace: 60 }]) {
    expect(() => parseGraceSeconds(wrong)).toThrow(expect.objectContaining({ code: 'bad_request' }));
  }
});

test("changing a key's ceiling keeps the window, and removing the ceiling resets the window", () => {
  const current = parseKeyInput({ name: 'ci', ceilings: { calls: 5, cost: 1 }, windows: { calls: 'day', cost: 'day' } }, now);
  const { ceilings } = applyKeyChange(current, { ceilings: { calls: 9, cost: null } }, now);
  expect(ceilings.calls).toEqual({ limit: 9, window: 'day' });
  expect(ceilings.cost).toEqual({ limit: null, window: 'month' });
});

test('trims key and model names, and rejects empty names', () => {
  expect(parseKeyInput({ name: ' ci ' }, now).name).toBe('ci');
  expect(() => parseKeyInput({ name: ' ' }, now)).toThrow('name:');
  expect(() => parseKeyInput({ name: 'ci', models: [''] }, now)).toThrow('models.0:');
});

test.each(['a\nb', 'a\tb', '\u001b[31m', 'a\u0085b'])('rejects the control character in the name %j', (name) => {
  expect(() => parseKeyInput({ name }, now)).toThrow('name: must not contain control characters');
  const current = { ...parseKeyInput({ name: 'ci' }, now), name };
  expect(applyKeyChange(current, { models: ['standard'] }, now).name).toBe(name);
});

test('limits the grace period of a rotated key to a year', () => {
  expect(parseGraceSeconds({ grace_seconds: 31_536_000 })).toBe(31_536_000);
  expect(() => parseGraceSeconds({ grace_seconds: 31_536_001 })).toThrow('grace_seconds:');
});
