import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import { createObjectText } from '../../../src/dialects/json/json-text.ts';
import { asLosslessObject, asNumber, isLosslessObject, omitNullish } from '../../../src/dialects/json/lossless-json.ts';
import { parseLossless } from '../../../src/dialects/json/parse-lossless.ts';
import { objectText, valueText } from '../../core/json/json-texts.ts';

function parsed(text: string): unknown {
  try {
    return parseJsonOrThrow(text);
  } catch {
    return undefined;
  }
}

function nested(depth: number): string {
  return `${'{"a":'.repeat(depth)}1.0${'}'.repeat(depth)}`;
}

describe('an object that arrives in chunks', () => {
  const isWhole = (...pieces: string[]): boolean => {
    const text = createObjectText();
    for (const piece of pieces) text.add(piece);
    return text.isComplete();
  };

  test('recognizes a complete JSON object at its last brace, wherever the chunks are split', () => {
    fc.assert(
      fc.property(objectText, fc.nat(), (text, place) => {
        const cut = place % (text.length + 1);
        const pieces = [text.slice(0, cut), text.slice(cut)];
        expect(isWhole(pieces[0] ?? '')).toBe(typeof parsed(pieces[0] ?? '') === 'object');
        expect(isWhole(...pieces)).toBe(true);
        expect(isWhole(...pieces, ' \n')).toBe(true);
        expect(isWhole(...text)).toBe(true);
      }),
    );
  });

  test.each(['', '{', '[]', '[{}]', '"{}"', '7', '{}{}', '{} x', '{,}', '{]', '}', '{"a":"}', '{"a":"\\"}', '{"a":[}]'])(
    'treats %j as incomplete',
    (text) => {
      expect(isWhole(text)).toBe(false);
      expect(isWhole(...text)).toBe(false);
      expect(isWhole(...text, '}')).toBe(parsed(`${text}}`) !== undefined);
    },
  );
});

describe('parseLossless', () => {
  test.each([
    '{"a":12345678901234567890,"b":1.0,"c":1e5,"d":-0,"e":0.10,"f":1E400,"g":1e-7}',
    '[1.0,[2.50,{"x":3e0}],true,null,"1.0"]',
    '1.0',
    '{"__proto__":{"a":1.0},"b":2}',
    '{"z":1,"a":2.0,"m":[]}',
  ])('keeps the original spelling of the numbers in %s', (text) => {
    expect(JSON.stringify(parseLossless(text))).toBe(text);
  });

  test('parseLossless accepts the same texts as JSON.parse', () => {
    fc.assert(
      fc.property(valueText, (text) => {
        const written = JSON.stringify(parseLossless(text));
        expect(parseJsonOrThrow(written)).toEqual(parseJsonOrThrow(text));
        expect(JSON.stringify(parseLossless(written))).toBe(written);
      }),
    );
  });

  test('parseLossless rejects the same texts as JSON.parse', () => {
    const broken = fc
      .tuple(
        valueText,
        fc.nat(),
        fc.constantFrom('', '"', '\\', ',', ':', '{', '}', '[', ']', '0', '-', '.', 'e', 't', '\u0001', '\ufeff', ' '),
      )
      .map(
        ([text, place, more]) => text.slice(0, place % (text.length + 1)) + more + text.slice((place % (text.length + 1)) + (place % 2)),
      );
    fc.assert(
      fc.property(broken, (text) => {
        const expected = parsed(text);
        const read = parseLossless(text);
        expect(read === undefined ? undefined : parseJsonOrThrow(JSON.stringify(read))).toEqual(expected);
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    '',
    ' ',
    '{',
    '{"a":01}',
    'NaN',
    '{"a":1}}',
    '{"a":1,}',
    '[1,]',
    '[,1]',
    '[1 2]',
    '{"a" 1}',
    '{a:1}',
    '"a\nb"',
    '"\\x"',
    '"a\\"',
    '"',
    '+1',
    '.5',
    '1.',
    '1e',
    '--1',
    'tru',
    'nulll',
    '\ufeff{}',
    '\u00a0{}',
  ])('rejects %j', (text) => {
    expect(parseLossless(text)).toBeUndefined();
  });

  test.each(['"\\\\"', '"a\\"b"', '"\\\\\\""', '"\\u00e9\\ud83d\\ude00"', '"é😀"', '{"\\u0061":1,"a":2}', ' [ 1 , { } ] \n'])(
    'reads %s like JSON.parse',
    (text) => {
      expect(parseLossless(text)).toEqual(parseJsonOrThrow(text));
    },
  );

  test('rejects JSON with too many values', () => {
    const listOf = (count: number): string => `[${Array.from({ length: count }, () => '1').join(',')}]`;
    expect(parseLossless(listOf(499_999))).toHaveLength(499_999);
    expect(parseLossless(listOf(500_000))).toBeUndefined();
  });

  test('rejects JSON that is nested too deeply', () => {
    expect(parseLossless(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)).toBeUndefined();
  });

  test('parsed values can be serialized even when nested inside other values', () => {
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

test('treats a losslessly parsed number as a number', () => {
  const value = parseLossless('1.0');
  expect(isLosslessObject(value)).toBe(false);
  expect(asLosslessObject(value)).toEqual({});
  expect(asNumber(value)).toBe(1);
  expect(asNumber(2)).toBe(2);
  expect(asNumber('2')).toBeUndefined();
});

test('omitNullish removes null and undefined members', () => {
  expect(Object.entries(omitNullish({ b: 0, a: null, c: '', d: undefined, e: false }))).toEqual([
    ['b', 0],
    ['c', ''],
    ['e', false],
  ]);
});
