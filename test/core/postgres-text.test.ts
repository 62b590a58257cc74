import { expect, test } from '@jest/globals';
import { toPostgresText } from '../../src/core/postgres-text.ts';

const cases: [title: string, text: string, max: number | undefined, storable: string][] = [
  ['ordinary text is unchanged', 'Grüße 👋', undefined, 'Grüße 👋'],
  ['U+0000 is removed', 'a\0b\0', undefined, 'ab'],
  ['a lone surrogate becomes U+FFFD', 'a\ud800b', undefined, 'a\ufffdb'],
  ['truncation counts code points and never splits one', '👋👋👋', 2, '👋👋'],
  ['a text of the exact length is unchanged', '👋a', 2, '👋a'],
  ['truncation to zero returns an empty text', 'abc', 0, ''],
];

test.each(cases)('%s', (_title, text, max, storable) => {
  expect(toPostgresText(text, max)).toBe(storable);
});
