import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { asObject } from '../../../src/core/json/narrow.ts';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import type { BodySpans } from '../../../src/core/json/spans.ts';
import { decodeString, scanMembers, scanObject, setMember, splice } from '../../../src/core/json/spans.ts';
import { JsonSyntaxError } from '../../../src/core/json/syntax.ts';
import { keyText, objectText, objectWith, valueText } from './json-texts.ts';

function parsedAsObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = parseJsonOrThrow(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}

function scanned(bytes: Buffer): BodySpans | null {
  try {
    return scanObject(bytes);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}

/** Returns the object that the spans describe, as `JSON.parse` would return it. */
function readBack(bytes: Buffer, spans: BodySpans): [string, unknown][] {
  return [...spans.members.values()].map(({ key, value }) => [key, parseJsonOrThrow(bytes.toString('utf8', value.start, value.end))]);
}

function kindOfValue(value: unknown): string {
  if (value === null || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? 'array' : typeof value;
}

test.each([
  ['{"Model":1}', 'Model'],
  ['{"model":1,"MODEL":2,"Model":3}', 'MODEL'],
  ['{"mod\\u0045l":1}', 'modEl'],
  ['{"\u017ftream":1}', '\u017ftream'],
  ['{"to\u212aen":1}', 'to\u212aen'],
  ['{"model":1,"mode":2,"Models":3,"\u00e9":4,"mod\\u0065l":5}', undefined],
  ['{"nested":{"Model":1}}', undefined],
  ['{"Cachedcontent":1}', 'Cachedcontent'],
  [`{${Array.from({ length: 1_001 }, (_, index) => `"K${index}":1`).join(',')}}`, 'K1000'],
])('finds keys of %s that differ from a wanted key only in case', (text, lookalike) => {
  expect(scanObject(Buffer.from(text), new Set(['model', 'stream', 'token', 'cachedContent'])).lookalike).toBe(lookalike);
});

describe('scanObject', () => {
  test('the JSON scanner finds the same object members as JSON.parse', () => {
    fc.assert(
      fc.property(objectText, (text) => {
        const bytes = Buffer.from(text);
        const spans = scanObject(bytes);
        const members = readBack(bytes, spans);
        const expected = Object.entries(asObject(parseJsonOrThrow(text)));
        expect(new Map(members)).toEqual(new Map(expected));
        for (const { key, kind, value } of spans.members.values()) {
          expect(kind).toBe(kindOfValue(parseJsonOrThrow(bytes.toString('utf8', value.start, value.end))));
          expect(bytes.toString('utf8', value.start, value.end).trim()).toHaveLength(bytes.toString('utf8', value.start, value.end).length);
          if (kind === 'string') expect(decodeString(bytes, value)).toBe(new Map(members).get(key));
        }
        expect(bytes.toString('utf8', spans.object.start, spans.object.end)).toBe(text.trim());
      }),
      { numRuns: 500 },
    );
  });

  test('accepts exactly the JSON texts that JSON.parse accepts', () => {
    const damage = fc.record({
      at: fc.nat(),
      remove: fc.nat({ max: 3 }),
      insert: fc.oneof(
        fc.string({ unit: fc.constantFrom(...'{}[]",:\\0123.eE+-tfnu \n\u0000\u001f\u00a0\u2028'), maxLength: 3 }),
        fc.constantFrom('\\u12', '01', '1.', '.5', '+1', '--1', '1e', 'tru', 'True', 'NaN', '/**/', "'", ',,', '\ufeff'),
      ),
    });
    fc.assert(
      fc.property(objectText, fc.array(damage, { minLength: 1, maxLength: 2 }), (text, damages) => {
        const damaged = damages.reduce((current, { at, remove, insert }) => {
          const place = at % (current.length + 1);
          return current.slice(0, place) + insert + current.slice(place + remove);
        }, text);
        // A split surrogate pair cannot be sent as UTF-8.
        fc.pre(damaged.isWellFormed());
        const spans = scanned(Buffer.from(damaged));
        const expected = parsedAsObject(damaged);
        if (expected === null) expect(spans).toBeNull();
        else expect(spans && new Set(spans.members.keys())).toEqual(new Set(Object.keys(expected)));
      }),
      { numRuns: 3000 },
    );
  });

  test.each([
    '',
    ' ',
    '[]',
    '"a"',
    '1',
    'null',
    '{',
    '}',
    '{}}',
    '{} {}',
    '{}x',
    '{,}',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{a:1}',
    "{'a':1}",
    '{"a":01}',
    '{"a":-}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":1e}',
    '{"a":1e+}',
    '{"a":+1}',
    '{"a":0x1}',
    '{"a":NaN}',
    '{"a":Infinity}',
    '{"a":tru}',
    '{"a":truee}',
    '{"a":nul',
    '{"a":"\t"}',
    '{"a":"\u0000"}',
    '{"a":"\\x"}',
    '{"a":"\\u12g4"}',
    '{"a":"\\u123"}',
    '{"a":"',
    '{"a":"\\',
    '{"a":"\\u',
    '{"a":[1 2]}',
    '{"a":[1,]}',
    '{"a":[}',
    '{"a":[}]',
    '{"a":{]}',
    '{"a":{"b":1]}',
    '{"a":[1}}',
    '{"a":{"b"}}',
    '{"a":{1:2}}',
    '\u00a0{}',
    '{}\u0000',
    '{"a":1}//',
  ])('rejects %j', (text) => {
    expect(() => scanObject(Buffer.from(text))).toThrow(JsonSyntaxError);
  });

  test('rejects every truncated JSON object', () => {
    const text = '{"model":"a\\u0041\\n","n":[-1.5e+3,{"b":true,"c":[null,false]}],"é":{}}';
    const bytes = Buffer.from(text);
    for (let length = 0; length < bytes.length; length += 1) {
      expect(() => scanObject(bytes.subarray(0, length))).toThrow(JsonSyntaxError);
    }
    expect(scanObject(bytes).members.size).toBe(3);
  });

  test.each([
    ['a byte-order mark', Buffer.from('\ufeff{}')],
    ['a lone continuation byte', Buffer.from([0x7b, 0x22, 0x80, 0x22, 0x3a, 0x31, 0x7d])],
    ['an overlong form', Buffer.from([0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d])],
    ['a surrogate as UTF-8', Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d])],
    ['half a character', Buffer.from('{"a":"é"}').subarray(0, 7)],
    ['UTF-16', Buffer.from('{}', 'utf16le')],
  ])('rejects %s', (_name, bytes) => {
    expect(() => scanObject(bytes)).toThrow(JsonSyntaxError);
  });

  test('reports the position of a JSON syntax error without the content', () => {
    expect(() => scanObject(Buffer.from('{"password":"hunter2" "x":1}'))).toThrow('expected a comma or closing brace at byte 22');
    expect(() => scanObject(Buffer.from([0x7b, 0xff]))).toThrow(/^invalid UTF-8$/);
  });

  test('accepts JSON nested a million levels deep', () => {
    const depth = 1_000_000;
    const arrays = Buffer.from(`{"a":${'['.repeat(depth)}${']'.repeat(depth)},"model":"m"}`);
    expect(scanObject(arrays).members.get('model')?.kind).toBe('string');
    const objects = Buffer.from(`{"a":${'{"b":'.repeat(depth)}1${'}'.repeat(depth)},"model":"m"}`);
    expect(scanObject(objects).members.get('model')?.kind).toBe('string');
    expect(() => scanObject(objects.subarray(0, -20))).toThrow(JsonSyntaxError);
    expect(() => scanObject(Buffer.from(`{"a":${'['.repeat(depth)}`))).toThrow(JsonSyntaxError);
  });

  test('reports duplicate keys even if they are escaped', () => {
    fc.assert(
      fc.property(keyText('model'), keyText('model'), valueText, valueText, (first, second, one, two) => {
        const bytes = Buffer.from(`{${first}:${one},"other":1,${second}:${two}}`);
        const spans = scanObject(bytes);
        expect([...spans.repeated]).toEqual(['model']);
        expect(Object.fromEntries(readBack(bytes, spans))).toEqual(parseJsonOrThrow(bytes.toString()));
      }),
    );
  });

  test("doesn't report similar or nested keys as duplicates", () => {
    const bytes = Buffer.from('{"model":1,"Model":2,"model ":3,"mod\\u0435l":4,"a":{"model":5,"model":6},"":7}');
    const { repeated, members } = scanObject(bytes);
    expect(repeated.size).toBe(0);
    expect(members.size).toBe(6);
  });

  test('finds requested keys even if they contain JSON escapes', () => {
    const wanted = new Set(['model', 'é', 'n']);
    const keys = fc.oneof(keyText('model'), keyText('é'), keyText('n'), keyText('modes'), keyText('è'), keyText('models'));
    fc.assert(
      fc.property(fc.array(fc.tuple(keys, valueText)), (entries) => {
        const bytes = Buffer.from(`{${entries.map(([key, value]) => `${key}:${value}`).join()}}`);
        const all = scanObject(bytes);
        const found = scanObject(bytes, wanted);
        expect([...found.members]).toEqual([...all.members].filter(([key]) => wanted.has(key)));
        expect(found.repeated).toEqual(all.repeated.intersection(wanted));
      }),
    );
  });

  test('treats keys such as `__proto__` and `constructor` like any other key', () => {
    const { members, repeated } = scanObject(Buffer.from('{"__proto__":1,"constructor":2,"toString":3,"hasOwnProperty":4}'));
    expect([...members.keys()]).toEqual(['__proto__', 'constructor', 'toString', 'hasOwnProperty']);
    expect(repeated.size).toBe(0);
  });
});

describe('splice and setMember', () => {
  test('replaces a JSON member without changing any other byte', () => {
    fc.assert(
      fc.property(objectWith({ model: valueText }), valueText, (text, json) => {
        const bytes = Buffer.from(text);
        const spans = scanObject(bytes);
        const old = spans.members.get('model')?.value ?? { start: 0, end: 0 };
        const made = splice(bytes, [setMember(spans, 'model', json)]);
        expect(made.subarray(0, old.start)).toEqual(bytes.subarray(0, old.start));
        expect(made.subarray(old.start + Buffer.byteLength(json))).toEqual(bytes.subarray(old.end));
        expect(parseJsonOrThrow(made.toString())).toEqual({ ...asObject(parseJsonOrThrow(text)), model: parseJsonOrThrow(json) });
      }),
      { numRuns: 300 },
    );
  });

  test('inserts a JSON member without changing any other byte', () => {
    fc.assert(
      fc.property(fc.oneof(objectText, fc.constantFrom('{}', '{ }', ' {\n} ')), valueText, (text, json) => {
        const bytes = Buffer.from(text);
        const spans = scanObject(bytes);
        fc.pre(!spans.members.has('model'));
        const change = setMember(spans, 'model', json);
        const made = splice(bytes, [change]);
        expect(made.subarray(0, change.span.start)).toEqual(bytes.subarray(0, change.span.start));
        expect(made.subarray(change.span.start + Buffer.byteLength(change.replacement))).toEqual(bytes.subarray(change.span.end));
        expect(parseJsonOrThrow(made.toString())).toEqual({ ...asObject(parseJsonOrThrow(text)), model: parseJsonOrThrow(json) });
      }),
      { numRuns: 300 },
    );
  });

  test('applies several edits to the bytes regardless of their order', () => {
    const bytes = Buffer.from('{"é":1,"b":22,"c":"x"}');
    const spans = scanObject(bytes);
    const changes = [setMember(spans, 'c', '"longer"'), setMember(spans, 'é', '[]'), setMember(spans, 'b', 'null')];
    for (const order of [changes, changes.toReversed()]) expect(splice(bytes, order).toString()).toBe('{"é":[],"b":null,"c":"longer"}');
    expect(splice(bytes, [])).toBe(bytes);
  });

  test('scans and edits a nested object in place', () => {
    const bytes = Buffer.from('{"a":1,"o": { "p" : [1.0] } ,"z":{}}');
    const outer = scanObject(bytes);
    const inner = scanMembers(bytes, outer.members.get('o')?.value.start ?? 0);
    expect(bytes.toString('utf8', inner.object.start, inner.object.end)).toBe('{ "p" : [1.0] }');
    expect(splice(bytes, [setMember(inner, 'q', 'true')]).toString()).toBe('{"a":1,"o": {"q":true, "p" : [1.0] } ,"z":{}}');
    const empty = scanMembers(bytes, outer.members.get('z')?.value.start ?? 0);
    expect(splice(bytes, [setMember(empty, 'q', 'true')]).toString()).toBe('{"a":1,"o": { "p" : [1.0] } ,"z":{"q":true}}');
  });
});
