import { expect, test } from '@jest/globals';
import { toPostgresText } from '../../src/core/postgres-text.ts';

const cases: [title: string, text: string, max: number | undefined, storable: string][] = [
  ['keeps ordinary text unchanged', 'Grüße 👋', undefined, 'Grüße 👋'],
  ['removes U+0000', 'a\0b\0', undefined, 'ab'],
  ['replaces a lone surrogate with U+FFFD', 'a\ud800b', undefined, 'a\ufffdb'],
  ['truncates at code points', '👋👋👋', 2, '👋👋'],
  ['keeps a text of the maximum length', '👋a', 2, '👋a'],
  ['truncates to an empty text', 'abc', 0, ''],
];

test.each(cases)('%s', (_title, text, max, storable) => {
  expect(toPostgresText(text, max)).toBe(storable);
});
