import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseJson, parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import { objectText, valueText } from './json-texts.ts';

/** Characters that make two keys equal for the bug of V8, if one of them is escaped. */
const confusing = fc.string({ unit: fc.constantFrom('a', '\\', '\n', '"', 'é'), maxLength: 3 });

/** Ways to write a string: each character as it is, with a short escape, or as `\uXXXX`. */
function written(text: string, choices: readonly number[]): string {
  const characters = [...text].map((character, index) => {
    const choice = (choices[index] ?? 0) % 3;
    const escaped = JSON.stringify(character).slice(1, -1);
    if (choice === 0) return escaped;
    if (choice === 1 && character === '/') return '\\/';
    return [...Array(character.length).keys()].map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');
  });
  return `"${characters.join('')}"`;
}

type Tree = string | number | boolean | null | Tree[] | Map<string, Tree>;

const tree = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3 },
    confusing,
    fc.constantFrom(0, -1.5, 1e300, 7),
    fc.constantFrom(true, false, null),
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.array(fc.tuple(confusing, tie('tree')), { maxLength: 4 }).map((members) => new Map(members)),
  ),
})).tree;

function toText(value: Tree, choices: readonly number[]): string {
  if (typeof value === 'string') return written(value, choices);
  if (Array.isArray(value)) return `[${value.map((element) => toText(element, choices)).join(' , ')}]`;
  if (value instanceof Map) return `{${[...value].map(([key, member]) => `${written(key, choices)} :${toText(member, choices)}`).join()}}`;
  return String(value);
}

function toObject(value: Tree): unknown {
  if (Array.isArray(value)) return value.map(toObject);
  return value instanceof Map ? Object.fromEntries([...value].map(([key, member]) => [key, toObject(member)])) : value;
}

test('reads keys correctly, no matter which keys were read before', () => {
  fc.assert(
    fc.property(tree, fc.array(fc.nat(), { maxLength: 6 }), (value, choices) => {
      expect(parseJsonOrThrow(toText(value, choices))).toEqual(toObject(value));
    }),
    { numRuns: 5_000 },
  );
});

test('an escaped key is not confused with the key of an earlier request', () => {
  parseJsonOrThrow('{"type":1,"\\\\u0":2}');
  expect(parseJsonOrThrow('{"type":1,"\\u00e9t\\u00e9":2}')).toEqual({ type: 1, été: 2 });
  expect(parseJsonOrThrow('{"type":1,"a":"\\u00e9","b\\u0062":3}')).toEqual({ type: 1, a: 'é', bb: 3 });
});

test('the last value of a repeated key wins, and `__proto__` is an ordinary key', () => {
  expect(parseJsonOrThrow('{"a":1,"b":2,"\\u0061":3}')).toEqual({ a: 3, b: 2 });
  expect(Object.entries(Object(parseJsonOrThrow('{"__proto__":1,"\\u005f_proto__":{"b":2}}')))).toEqual([['__proto__', { b: 2 }]]);
});

test('accepts exactly the texts that JSON.parse accepts', () => {
  const damage = fc.tuple(
    fc.nat(),
    fc.nat({ max: 2 }),
    fc.constantFrom('', '"', '\\', ':', ',', '{', '}', '[', ']', '1', '\n', '\\u12', '"a\\n":'),
  );
  fc.assert(
    fc.property(fc.oneof(objectText, valueText), fc.array(damage, { maxLength: 2 }), (text, damages) => {
      const damaged = damages.reduce((current, [place, remove, insert]) => {
        const at = place % (current.length + 1);
        return current.slice(0, at) + insert + current.slice(at + remove);
      }, text);
      expect(parseJson(damaged) !== undefined).toBe(isAccepted(damaged));
      // Texts with an escaped key are read by our own reader, so add one.
      expect(parseJson(`{"\\n":${damaged}}`) !== undefined).toBe(isAccepted(`{"\\n":${damaged}}`));
    }),
    { numRuns: 3_000 },
  );
});

test('reads escaped keys in JSON nested a million levels deep', () => {
  const depth = 1_000_000;
  expect(parseJson(`${'{"\\n":'.repeat(depth)}1${'}'.repeat(depth)}`)).toEqual(expect.any(Object));
  expect(parseJson(`{"\\n":${'['.repeat(depth)}${']'.repeat(depth - 1)}}`)).toBeUndefined();
});

function isAccepted(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

test("a short string doesn't keep the text that it was parsed from in memory", () => {
  const kept: unknown[] = [];
  const before = usedHeap();
  for (let n = 0; n < 100; n += 1) {
    const text = `{"a\\n":1,"kept":"a string of ${n}","rest":"${'x'.repeat(500_000)}"}`;
    kept.push(Object(parseJsonOrThrow(text)).kept);
  }
  expect(usedHeap() - before).toBeLessThan(10_000_000);
  expect(kept[99]).toBe('a string of 99');
});

function usedHeap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

const collectGarbage = (): void => {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
};
