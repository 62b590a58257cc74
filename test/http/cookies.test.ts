import { expect, test } from '@jest/globals';
import { parseCookies } from '../../src/http/cookies.ts';

test('parses the names and values of cookies', () => {
  expect({ ...parseCookies('a=b=c; d=%20e ; a=later;f=;=g; h; i=%ff') }).toEqual({ a: 'b=c', d: ' e', f: '' });
  expect({ ...parseCookies(undefined) }).toEqual({});
});

test('ignores the rest of a header after ten values that are not percent-encoded UTF-8', () => {
  expect({ ...parseCookies(`${'x=%ff;'.repeat(9)}a=b`) }).toEqual({ a: 'b' });
  expect({ ...parseCookies(`${'x=%ff;'.repeat(10)}a=b`) }).toEqual({});
});
