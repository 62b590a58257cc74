import { expect, test } from '@jest/globals';
import { parseCookies } from '../../src/http/cookies.ts';

test('parses the names and values of cookies', () => {
  expect({ ...parseCookies('a=b=c; d=%20e ; a=later;f=;=g; h; i=%ff') }).toEqual({ a: 'b=c', d: ' e', f: '' });
  expect({ ...parseCookies(undefined) }).toEqual({});
});
