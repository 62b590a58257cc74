import { describe, expect, test } from '@jest/globals';
import { standardFormat } from '../../src/core/request-format.ts';
import { adaptBody, changesBodies } from '../../src/vendors/request-body.ts';

const format = {
  ...standardFormat,
  membersInPath: ['model', 'stream'],
  addedMembers: { anthropic_version: 'v1' },
  betaFlags: { allowed: null, aliases: {}, isInBody: true },
};

const adapt = (text: string, headers: Record<string, string> = {}): string =>
  adaptBody(Buffer.from(text), format, { hasModelInPath: true, headers }).toString('utf8');

describe('a body for a vendor whose path names the model', () => {
  test('changes the body if the model is in the path, even if the vendor needs no other changes', () => {
    expect(changesBodies({ ...standardFormat, membersInPath: ['model'] })).toBe(true);
    expect(changesBodies(standardFormat)).toBe(false);
  });

  test('keeps all other members of the body byte for byte', () => {
    const body = '{ "max_tokens": 1.0, "model" : "m", "messages" : [{"role":"user","content":"\\u00e4 {}"}] , "stream" : true }';
    expect(adapt(body)).toBe('{"anthropic_version":"v1", "max_tokens": 1.0, "messages" : [{"role":"user","content":"\\u00e4 {}"}]  }');
  });

  test('keeps an anthropic_version that the caller has set', () => {
    expect(adapt('{"anthropic_version":"own","a":1}')).toBe('{"anthropic_version":"own","a":1}');
  });

  test('takes beta flags from the header rather than the body', () => {
    const headers = { 'anthropic-beta': 'one,two' };
    const expected = '{"anthropic_version":"v1","anthropic_beta":["one","two"],"a":1}';
    expect(adapt('{"a":1}', headers)).toBe(expected);
    expect(adapt('{"anthropic_beta":["unknown","one"],"a":1}', headers)).toBe(expected);
    expect(adapt('{"anthropic_beta":["unknown"],"a":1}')).toBe('{"anthropic_version":"v1","a":1}');
  });

  test("uses a newer anthropic_version from the caller's header", () => {
    expect(adapt('{"a":1}', { 'anthropic-version': '2026-10-21' })).toBe('{"anthropic_version":"2026-10-21","a":1}');
    expect(adapt('{"a":1}', { 'anthropic-version': '2023-06-01' })).toBe('{"anthropic_version":"v1","a":1}');
  });

  test("keeps the model in the body if the path doesn't contain it", () => {
    const context = { hasModelInPath: false, headers: {} };
    expect(adaptBody(Buffer.from('{"model":"m"}'), format, context).toString()).toBe('{"anthropic_version":"v1","model":"m"}');
  });

  const members = ['"model":"m"', '"stream":true', '"anthropic_version":"v1"', '"a":[1,2]', '"b":{"model":"inner"}'];
  const orders = members.flatMap((one) => members.flatMap((two) => members.map((three) => [...new Set([one, two, three])])));
  test.each([[], ...orders].map((order) => [order.join(' , ')]))(
    'removes members that are in the path and keeps the body valid JSON: { %s }',
    (text) => {
      const { model: _model, stream: _stream, ...rest } = JSON.parse(`{${text}}`);
      for (const body of [`{${text}}`, `{ ${text} }`, `{\n\t${text}\r\n}`]) {
        expect(JSON.parse(adapt(body))).toEqual({ anthropic_version: 'v1', ...rest });
      }
    },
  );
});
