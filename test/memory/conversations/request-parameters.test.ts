import { expect, test } from '@jest/globals';
import { readParameters, readPlainParameters } from '../../../src/memory/conversations/request-parameters.ts';

const read = (body: unknown) => readParameters(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)));

test('keeps only the parameters that affect the response', () => {
  const body = {
    model: 'm',
    messages: [{ role: 'user', content: 'temperature: 2' }],
    temperature: 0.5,
    stop: ['\n'],
    user: 'ann',
    metadata: { a: 1 },
  };
  expect(JSON.parse(read(body) ?? '')).toEqual({ temperature: 0.5, stop: ['\n'] });
  expect(read({ model: 'm', messages: [] })).toBe('{}');
});

test('masks credentials in request parameters', () => {
  const key = `sk-proj-${'a1B2'.repeat(12)}`;
  expect(read({ stop: [key] })).not.toContain(key);
});

test("stores no parameters if the body is too long or isn't a JSON object", () => {
  expect(read({ temperature: 1, messages: ['x'.repeat(300_000)] })).toBeNull();
  expect(read({ stop: ['x'.repeat(20_000)] })).toBeNull();
  for (const body of ['', '[1]', '{"temperature": ', '"text"']) expect(read(body)).toBeNull();
});

test('reads simple parameters from a parsed request, or reports that the body has to be scanned', () => {
  const plain = '{"model":"m","messages":[],"temperature":0.5,"seed":1,"seed":2,"store":null,"stream":false}';
  expect(readPlainParameters(JSON.parse(plain))).toBe('{"temperature":0.5,"seed":2,"store":null,"stream":false}');
  expect(JSON.parse(read(plain) ?? '')).toEqual({ temperature: 0.5, seed: 2, store: null, stream: false });
  expect(readPlainParameters({ messages: [] })).toBe('{}');
  expect(readPlainParameters('text')).toBeNull();
  for (const text of ['{"stop":"a"}', '{"stop":["a"]}', '{"logit_bias":{"5":1}}', '{"temperature":1e999}'])
    expect(readPlainParameters(JSON.parse(text))).toBeUndefined();
});
