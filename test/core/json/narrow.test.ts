import { describe, expect, test } from '@jest/globals';
import { asArray, asCount, asObject, asString, isObject } from '../../../src/core/json/narrow.ts';
import { parseJson } from '../../../src/core/json/parse.ts';

const list = [1];
const object = { a: 1 };

describe('narrowing a value', () => {
  test.each([null, undefined, 0, true, 'text', list, object])("doesn't accept %p as a different type", (value) => {
    const wanted = value === object;
    expect(isObject(value)).toBe(wanted);
    expect(asObject(value)).toEqual(wanted ? object : {});
    expect(asArray(value)).toEqual(value === list ? list : []);
    expect(asString(value)).toBe(value === 'text' ? 'text' : null);
  });
});

test.each<[unknown, number | undefined]>([
  [0, 0],
  [7, 7],
  [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  [2 ** 53, undefined],
  [-1, undefined],
  [1.5, undefined],
  [Number.NaN, undefined],
  ['7', undefined],
  [null, undefined],
  [undefined, undefined],
  [true, undefined],
])('reads the count %p as %p', (value, count) => {
  expect(asCount(value)).toBe(count);
});

test("returns undefined for text that isn't JSON", () => {
  expect(parseJson('{"a":[1]}')).toEqual({ a: [1] });
  expect(parseJson('null')).toBeNull();
  for (const text of ['', '{', 'undefined', '\ufeff{}', '['.repeat(1_000_000)]) expect(parseJson(text)).toBeUndefined();
});
