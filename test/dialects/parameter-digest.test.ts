import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { scanObject } from '../../src/core/json/spans.ts';
import { omitMembers } from '../../src/dialects/json/parameter-digest.ts';
import { valueText } from '../core/json/json-texts.ts';

const keys = ['model', 'stream', 'stream_options'];

function cut(text: string): string {
  const bytes = Buffer.from(text);
  return Buffer.concat(omitMembers(bytes, scanObject(bytes), keys)).toString();
}

describe('omitMembers', () => {
  test.each([
    ['{"model":"a","n":1.0}', '{"n":1.0}'],
    ['{"n":1.0,"model":"a"}', '{"n":1.0}'],
    ['{"n":1.0,"model":"a","m":2}', '{"n":1.0,"m":2}'],
    ['{"n": 1.0, "stream": true, "m": 2}', '{"n": 1.0, "m": 2}'],
    ['{"n": 1.0, "stream": true}', '{"n": 1.0}'],
    ['{"stream": true, "n": 1.0}', '{"n": 1.0}'],
    ['{\n  "n": 1,\n  "model": "a",\n  "stream": true,\n  "stream_options": {"include_usage": true}\n}\n', '{\n  "n": 1\n}\n'],
    ['{"model":"a","stream":true}', '{}'],
    ['{ }', '{ }'],
    ['{"n":"model,","\\u006dodel" : "a"}', '{"n":"model,"}'],
    ['{"n":{"model":"inner","stream":true}}', '{"n":{"model":"inner","stream":true}}'],
    ['{"é":1,"stream":false,"ü":",}"}', '{"é":1,"ü":",}"}'],
  ])('omits the named members from %s', (text, left) => {
    expect(cut(text)).toBe(left);
  });

  test('keeps the formatting of the remaining JSON members', () => {
    const style = fc.constantFrom<[string, string, string]>(['', ',', ':'], ['', ', ', ': '], ['\n  ', ',\n  ', ': ']);
    const members = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd', ...keys), valueText), { maxLength: 8 });
    fc.assert(
      fc.property(style, members, ([open, comma, colon], all) => {
        const distinct = [...new Map(all)];
        const write = (some: typeof distinct): string =>
          some.length === 0
            ? '{}'
            : `{${open}${some.map(([key, value]) => `"${key}"${colon}${value}`).join(comma)}${open === '' ? '' : '\n'}}`;
        const kept = distinct.filter(([key]) => !keys.includes(key));
        fc.pre(kept.length > 0 || distinct.length === 0);
        expect(cut(write(distinct))).toBe(write(kept));
      }),
      { numRuns: 500 },
    );
  });
});
