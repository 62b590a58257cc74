import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { given, isObject, numberOf, objectOf, parseLossless } from '../../src/dialects/translate-json.ts';
import { valueText } from '../core/json-texts.ts';

function nested(depth: number): string {
  return `${'{"a":'.repeat(depth)}1.0${'}'.repeat(depth)}`;
}

describe('parseLossless', () => {
  test.each([
    '{"a":12345678901234567890,"b":1.0,"c":1e5,"d":-0,"e":0.10,"f":1E400,"g":1e-7}',
    '[1.0,[2.50,{"x":3e0}],true,null,"1.0"]',
    '1.0',
    '{"__proto__":{"a":1.0},"b":2}',
    '{"z":1,"a":2.0,"m":[]}',
  ])('keeps the text of the numbers in %s', (text) => {
    expect(JSON.stringify(parseLossless(text))).toBe(text);
  });

  test('reads what JSON.parse reads, and writes text that means the same', () => {
    fc.assert(
      fc.property(valueText, (text) => {
        const written = JSON.stringify(parseLossless(text));
        expect(JSON.parse(written)).toEqual(JSON.parse(text));
        expect(JSON.stringify(parseLossless(written))).toBe(written);
      }),
    );
  });

  test.each(['', '{', '{"a":01}', 'NaN', '{"a":1}}'])('%p is no JSON', (text) => {
    expect(parseLossless(text)).toBeUndefined();
  });

  test('text that is nested too deeply counts as no JSON instead of breaking the call', () => {
    expect(parseLossless(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)).toBeUndefined();
  });

  test('what can be read can be written again, with room around it', () => {
    let low = 1;
    let high = 100_000;
    while (low < high) {
      const depth = Math.ceil((low + high) / 2);
      if (parseLossless(nested(depth)) === undefined) high = depth - 1;
      else low = depth;
    }
    expect(low).toBeGreaterThan(500);
    const value = parseLossless(nested(low));
    expect(JSON.stringify({ a: [{ b: { c: { d: value } } }] })).toContain('1.0');
  });
});

test('a number whose text is kept is a number and no object', () => {
  const value = parseLossless('1.0');
  expect(isObject(value)).toBe(false);
  expect(objectOf(value)).toEqual({});
  expect(numberOf(value)).toBe(1);
  expect(numberOf(2)).toBe(2);
  expect(numberOf('2')).toBeUndefined();
});

test('given leaves out what is not there, and keeps everything else in order', () => {
  expect(Object.entries(given({ b: 0, a: null, c: '', d: undefined, e: false }))).toEqual([
    ['b', 0],
    ['c', ''],
    ['e', false],
  ]);
});
