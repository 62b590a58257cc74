import { expect, test } from '@jest/globals';
import { clientAddress } from '../../src/http/client-address.ts';

test.each([
  ['203.0.113.7', undefined, '203.0.113.7'],
  // A client that connects directly can't pretend to have another address.
  ['203.0.113.7', '198.51.100.1', '203.0.113.7'],
  ['::ffff:127.0.0.1', '198.51.100.1', '198.51.100.1'],
  ['10.0.0.5', '198.51.100.9, 198.51.100.1', '198.51.100.1'],
  ['10.0.0.5', '198.51.100.1, 10.0.0.9', '198.51.100.1'],
  ['::1', '2001:db8::1', '2001:db8::1'],
  ['10.0.0.5', '192.168.1.4', '192.168.1.4'],
  ['10.0.0.5', 'unknown, ', '10.0.0.5'],
])('a connection from %s with x-forwarded-for %s has the client address %s', (remoteAddress, header, expected) => {
  const headers = header === undefined ? {} : { 'x-forwarded-for': header };
  expect(clientAddress({ socket: { remoteAddress }, headers } as unknown as Parameters<typeof clientAddress>[0])).toBe(expected);
});
