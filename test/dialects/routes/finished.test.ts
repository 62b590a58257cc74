/** Tests that we know if all choices of a response have a finish reason. Other responses can't be cached. */
import { expect, test } from '@jest/globals';
import { routeCodecs } from '../../../src/dialects/routes/route-codecs.ts';
import { readStream, streamOf } from '../events.ts';

const chatChoice = (index: number, reason: string | null) => ({ index, message: { content: 'x' }, finish_reason: reason });

test.each<[boolean, 'chat' | 'messages', object]>([
  [true, 'chat', { choices: [chatChoice(0, 'stop')] }],
  [true, 'chat', { choices: [chatChoice(0, 'length'), chatChoice(1, 'stop')] }],
  [false, 'chat', { choices: [chatChoice(0, 'stop'), chatChoice(1, null)] }],
  [false, 'chat', { choices: [{ message: { content: 'x' } }] }],
  [false, 'chat', { choices: [] }],
  [true, 'messages', { content: [], stop_reason: 'end_turn' }],
  [false, 'messages', { content: [], stop_reason: null }],
])('finished is %s for the %s response %j', (finished, dialect, answer) => {
  expect(routeCodecs[dialect].parseResponse(Buffer.from(JSON.stringify(answer)))?.finished).toBe(finished);
});

const chatPiece = (index: number, reason: string | null) => ({ choices: [{ index, delta: { content: 'x' }, finish_reason: reason }] });
const begun = { type: 'message_start', message: {} };

test.each<[boolean, 'chat' | 'messages', readonly unknown[]]>([
  [true, 'chat', [chatPiece(0, null), chatPiece(0, 'stop'), { choices: [] }, '[DONE]']],
  [false, 'chat', [chatPiece(0, null), '[DONE]']],
  [false, 'chat', [chatPiece(1, null), chatPiece(0, 'stop'), '[DONE]']],
  [true, 'chat', [chatPiece(1, 'stop'), chatPiece(0, 'stop'), '[DONE]']],
  [false, 'chat', ['[DONE]']],
  [true, 'messages', [begun, { type: 'message_delta', delta: { stop_reason: 'tool_use' } }, { type: 'message_stop' }]],
  [false, 'messages', [begun, { type: 'message_delta', delta: {} }, { type: 'message_stop' }]],
])('finished is %s for the %s stream %j', (finished, dialect, events) => {
  const reader = routeCodecs[dialect].createStreamReader();
  readStream(reader, streamOf(...events));
  expect(reader.summary().finished).toBe(finished);
});
