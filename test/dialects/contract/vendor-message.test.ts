import { expect, test } from '@jest/globals';
import { parseVendorMessage } from '../../../src/dialects/contract/vendor-message.ts';

test.each([
  ['{"error":{"message":"too long","type":"invalid_request_error"}}', 'too long'],
  ['{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too large"}}', 'max_tokens: too large'],
  ['{"error":{"message":null}}', null],
  ['{"error":"text"}', 'text'],
  ['{"message":"no such document"}', 'no such document'],
  ['{"detail":"not authorised"}', 'not authorised'],
  ['{"detail":[{"msg":"x"}]}', null],
  ['[]', null],
  ['<html>', null],
  ['', null],
])('reads the message of %s: %s', (text, message) => {
  expect(parseVendorMessage(Buffer.from(text))).toBe(message);
});
