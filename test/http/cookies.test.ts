import { expect, test } from '@jest/globals';
import { parseCookies } from '../../src/http/cookies.ts';

test("parses the names and values of the gateway's own cookies", () => {
  const header = 'gateway_a=b=c; __Host-gateway_d=%20e ; gateway_a=later;gateway-f=;=g; h; gateway_i=%ff; gateway_i=j; other=%';
  expect({ ...parseCookies(header) }).toEqual({ gateway_a: 'b=c', '__Host-gateway_d': ' e', 'gateway-f': '', gateway_i: 'j' });
  expect({ ...parseCookies(undefined) }).toEqual({});
});

test("finds the gateway's cookies no matter how many invalid ones come before them", () => {
  expect({ ...parseCookies(`${'x=%ff;'.repeat(2_000)}gateway_session=secret`) }).toEqual({ gateway_session: 'secret' });
});
