import { expect, test } from '@jest/globals';
import { describeConnectionError } from '../../src/vendors/connection-error.ts';

test.each([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'the TLS certificate of the host was rejected'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'the TLS certificate of the host was rejected'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'the TLS certificate of the host was rejected'],
  ['CERT_HAS_EXPIRED', 'the TLS certificate of the host was rejected'],
  ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'the TLS handshake failed'],
  ['UND_ERR_CONNECT_TIMEOUT', 'the connection attempt timed out'],
  ['ESOMETHING', 'the connection failed'],
  [null, 'the connection was closed before the response began'],
])('explains the connection error %s in a sentence', (code, sentence) => {
  expect(describeConnectionError(code)).toBe(sentence);
});
