import type { IncomingHttpHeaders } from 'node:http';
import { describe, expect, test } from '@jest/globals';
import { noCorrelation } from '../../src/core/call.ts';
import {
  hasSubjectHeader,
  parseCorrelation,
  parseFirstContentTimeoutMs,
  parseMemoryMode,
  parseSource,
  parseSubject,
  parseTextHeader,
  parseTimeoutMs,
  pickForwardedHeaders,
} from '../../src/http/headers.ts';

/** Returns a header value as Node passes it, with its bytes as Latin-1. */
function wire(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

describe('parseTextHeader', () => {
  test.each([
    ['app', 'app'],
    [wire('Anwendung größer 漢字 😀'), 'Anwendung größer 漢字 😀'],
    ['', null],
    [undefined, null],
    ['gr\u00f6', 'gr\ufffd'],
  ])('parses the text header %j as %j', (value, text) => {
    expect(parseTextHeader({ 'x-gateway-source': value }, 'x-gateway-source')).toBe(text);
  });
});

describe('x-gateway-source', () => {
  test.each([
    ['web', 'web'],
    ['gateway', 'gateway'],
    ['gateway-memory', null],
    ['gateway-playground', null],
    ['x'.repeat(300), 'x'.repeat(256)],
    ['a\0', 'a'],
  ])('parses the source %j as %j', (value, source) => {
    expect(parseSource({ 'x-gateway-source': value })).toBe(source);
  });
});

describe('x-gateway-timeout-ms', () => {
  test.each([
    ['1', 1],
    ['5000', 5000],
    ['007', 7],
    ['120000', 120_000],
    ['120001', 120_000],
    ['9'.repeat(400), 120_000],
    ['0', null],
    ['-1', null],
    ['+5', null],
    ['1.5', null],
    ['1e3', null],
    ['5s', null],
    ['5, 6', null],
    ['0x10', null],
    ['', null],
    [wire('٥'), null],
    [undefined, null],
  ])('parses a timeout of %j as %j', (value, timeoutMs) => {
    expect(parseTimeoutMs({ 'x-gateway-timeout-ms': value })).toBe(timeoutMs);
  });
});

describe('x-gateway-first-content-timeout-ms', () => {
  const parse = (value: string | undefined) => parseFirstContentTimeoutMs({ 'x-gateway-first-content-timeout-ms': value });

  test.each([
    ['1', 1],
    ['3600000', 3_600_000],
    ['', null],
    [undefined, null],
  ])('parses a first content timeout of %j as %j', (value, timeoutMs) => {
    expect(parse(value)).toBe(timeoutMs);
  });

  test.each(['0', '-1', '+5', '1.5', '1e3', '5s', '5, 6', '0x10', '3600001', '9'.repeat(400), wire('٥')])(
    'returns 400 bad_request for a first content timeout of %j',
    (value) => {
      expect(() => parse(value)).toThrow(expect.objectContaining({ code: 'bad_request', status: 400 }));
    },
  );
});

describe('x-gateway-memory', () => {
  test.each([
    [undefined, 'write', false],
    ['', 'write', false],
    ['write', 'write', true],
    ['Write', 'write', true],
    ['recall', 'recall', false],
    ['RECALL', 'recall', false],
    ['off', 'off', false],
    ['oFF', 'off', false],
  ])('parses the memory mode %j as %s', (value, mode, explicitWrite) => {
    expect(parseMemoryMode({ 'x-gateway-memory': value })).toEqual({ mode, explicitWrite });
  });

  test.each(['on', 'true', 'write, off', 'writes', ' write', 'no', '0', wire('wrıte')])(
    'returns 400 invalid_memory_mode for %j',
    (value) => {
      expect(() => parseMemoryMode({ 'x-gateway-memory': value })).toThrow(
        expect.objectContaining({ code: 'invalid_memory_mode', status: 400 }),
      );
    },
  );
});

describe('the subject', () => {
  const headerOf = (value: string | undefined): IncomingHttpHeaders => ({ 'x-gateway-memory-subject': value });

  test.each<[string, string | undefined, string | null, string | null]>([
    ['the header', 'user-42', null, 'user-42'],
    ['the header even if the body has one', 'user-42', 'other', 'user-42'],
    ['a UTF-8 header', wire('Jürgen 漢 😀'), null, 'Jürgen 漢 😀'],
    ['a header of 256 characters in UTF-8', wire('é'.repeat(256)), null, 'é'.repeat(256)],
    ['the body', undefined, 'user-7', 'user-7'],
    ['the body if the header is empty', '', 'user-7', 'user-7'],
    ['neither the header nor the body', undefined, null, null],
    ['no body value that is too long', undefined, 'x'.repeat(257), null],
    ['a body value of 256 characters', undefined, '😀'.repeat(256), '😀'.repeat(256)],
    ['no body value with a control character', undefined, 'a\nb', null],
    ['no body value with a lone surrogate', undefined, 'a\ud800', null],
    ['no empty body value', undefined, '', null],
  ])('takes the subject from %s', (_name, value, bodyUser, subject) => {
    expect(parseSubject(headerOf(value), bodyUser)).toBe(subject);
  });

  test.each<[string, string]>([
    ['257 characters', 'x'.repeat(257)],
    ['257 characters in UTF-8', wire('é'.repeat(257))],
    ['a tab', 'a\tb'],
    ['a C1 control character in UTF-8', wire('a\u0085')],
    ['Latin-1', 'J\u00fcrgen'],
    ['half a character', wire('é').slice(0, 1)],
    ['a surrogate as UTF-8', '\u00ed\u00a0\u0080'],
    ['an overlong form', '\u00c0\u00af'],
  ])('rejects a subject header with %s', (_name, value) => {
    expect(hasSubjectHeader(headerOf(value))).toBe(true);
    expect(parseSubject(headerOf(value), 'from the body')).toBeNull();
  });
});

describe('correlation headers', () => {
  test('returns each correlation header, or null if it is absent', () => {
    expect(
      parseCorrelation({
        'x-gateway-task-id': 't-17',
        'x-gateway-turn-id': wire('große'),
        'x-gateway-agent-id': 'a',
        'x-gateway-trigger-kind': 'cron',
        'x-gateway-trigger-detail': 'nightly',
        'x-gateway-iteration': '3',
        'x-gateway-distil-saved': '1200',
      }),
    ).toEqual({
      taskId: 't-17',
      turnId: 'große',
      agentId: 'a',
      triggerKind: 'cron',
      triggerDetail: 'nightly',
      iteration: 3,
      distilSaved: 1200,
    });
    expect(parseCorrelation({})).toEqual(noCorrelation);
    expect(parseCorrelation({ 'x-gateway-task-id': '', 'x-gateway-iteration': '' })).toEqual(noCorrelation);
  });

  test.each([
    ['0', 0],
    ['-3', -3],
    ['+3', 3],
    ['0012', 12],
    ['9007199254740991', 9_007_199_254_740_991],
    ['9007199254740993', null],
    ['1.0', null],
    ['1e3', null],
    ['three', null],
    ['--3', null],
    ['3 4', null],
    ['0x3', null],
  ])('parses the integer %j as %j', (value, integer) => {
    expect(parseCorrelation({ 'x-gateway-iteration': value }).iteration).toBe(integer);
    expect(parseCorrelation({ 'x-gateway-distil-saved': value }).distilSaved).toBe(integer);
  });
});

test('forwards only four request headers to vendors', () => {
  const passed = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'a,b', 'openai-beta': 'x', 'idempotency-key': 'i' };
  const kept = {
    authorization: 'Bearer sk-gw',
    'x-api-key': 'sk-gw',
    cookie: 'c',
    'content-type': 'text/plain',
    'content-length': '5',
    host: 'h',
    accept: 'a',
    'accept-encoding': 'br',
    'user-agent': 'u',
    'openai-organization': 'o',
    'x-gateway-source': 's',
    'x-gateway-memory-subject': 'user',
    'x-forwarded-for': '1.2.3.4',
  };
  expect(pickForwardedHeaders({ ...kept, ...passed })).toEqual(passed);
  expect(pickForwardedHeaders(kept)).toEqual({});
});
