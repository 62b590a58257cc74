import { expect, test } from '@jest/globals';
import { toPostgresText } from '../../src/core/postgres-text.ts';

const cases: [title: string, text: string, max: number | undefined, storable: string][] = [
  ['ordinary text stays', 'Grüße 👋', undefined, 'Grüße 👋'],
  ['U+0000 goes', 'a\0b\0', undefined, 'ab'],
  ['a lone surrogate becomes U+FFFD', 'a\ud800b', undefined, 'a\ufffdb'],
  ['a cut counts code points and never halves one', '👋👋👋', 2, '👋👋'],
  ['a text of the exact length stays', '👋a', 2, '👋a'],
  ['a cut to nothing is empty', 'abc', 0, ''],
];

test.each(cases)('%s', (_title, text, max, storable) => {
  expect(toPostgresText(text, max)).toBe(storable);
});
