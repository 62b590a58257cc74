import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import { sanitizeCall } from '../../src/journal/sanitize-call.ts';
import { settledCall } from './calls.ts';

/** A call in which every text is `text`. */
function callOf(text: string): SettledCall {
  const correlation = {
    taskId: text,
    turnId: text,
    agentId: text,
    triggerKind: text,
    triggerDetail: text,
    iteration: 1,
    distilSaved: null,
  };
  const call = settledCall({
    metadata: {
      ...{ keyPrefix: text, source: text, modelAsked: text, correlation },
      memory: { mode: 'write', explicitWrite: true, subject: text },
      plan: [
        { model: 'openai/gpt-4o', skipped: null },
        { model: text, skipped: text, filled: true },
      ],
    },
    result: { code: text, model: text },
    content: { request: Buffer.from(text), response: { text, toolCalls: [{ name: text, arguments: text }] } },
  });
  const error = { reason: text, type: text, code: text, message: text };
  return {
    ...call,
    result: { ...call.result, attempts: call.result.attempts.map((attempt) => ({ ...attempt, provider: text, model: text, error })) },
  };
}

test.each(['a\0b', 'a\ud800b', '\udc00'])('removes %j from every text except the request', (text) => {
  const call = callOf(text);
  const id = call.metadata.id;
  const clean = callOf(text.replace('\0', '').toWellFormed());
  const expected = {
    ...clean,
    metadata: { ...clean.metadata, id },
    content: clean.content && { ...clean.content, request: Buffer.from(text) },
  };
  expect(sanitizeCall(call)).toEqual(expected);
  expect(call).toEqual({ ...callOf(text), metadata: { ...callOf(text).metadata, id } });
});

test('truncates overlong correlation ids and application names', () => {
  const { metadata } = sanitizeCall(callOf('\u{1f600}'.repeat(300)));
  const truncated = '\u{1f600}'.repeat(256);
  expect(metadata).toMatchObject({ source: truncated, modelAsked: '\u{1f600}'.repeat(300) });
  for (const name of ['taskId', 'turnId', 'agentId', 'triggerKind', 'triggerDetail'] as const)
    expect(metadata.correlation[name]).toBe(truncated);
});

test('returns the same call object if nothing needs to be sanitized', () => {
  const call = callOf('plain');
  expect(sanitizeCall(call)).toBe(call);
  const withoutText = settledCall();
  expect(sanitizeCall(withoutText)).toBe(withoutText);
  const answered = { ...call, content: { request: Buffer.from('x'), response: { text: '\0', toolCalls: [] } } };
  const sanitized = sanitizeCall(answered);
  expect(sanitized.content).toEqual({ ...answered.content, response: { text: '', toolCalls: [] } });
  expect(sanitized.metadata).toBe(call.metadata);
  expect(sanitized.result).toBe(call.result);
});

test('rejects a call with a value of the wrong type', () => {
  const { metadata, ...call } = settledCall();
  expect(() => sanitizeCall({ ...call, metadata: { ...metadata, source: 7 as unknown as string } })).toThrow(TypeError);
});
