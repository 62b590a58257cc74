/**
 * The streamed answer of a vendor of chat for a caller of messages (vendor facts 8.4). Pure.
 *
 * Blocks of the messages dialect do not interleave, pieces of chat may: what belongs to a later block waits until the current one has
 * ended. A tool call ends when its arguments are a whole JSON object and something else waits, so calls that a vendor sends one after
 * the other come through at once.
 */

import { asArray, asObject, asString, isObject, type JsonObject, parseJson } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';
import { formatEvent } from '../../core/sse.ts';
import { readChatUsage } from '../contract/token-usage.ts';
import { filledText } from '../json/lossless-json.ts';
import { createBlockQueue } from './block-queue.ts';
import { answerTextOf, isThinking } from './chat-text.ts';
import type { AnswerNames } from './response-identity.ts';
import { messagesUsageOf, stopReasonOf } from './stop-reasons.ts';
import type { StreamState, StreamTranslator } from './stream.ts';

export function createStreamToMessages(names: AnswerNames): StreamTranslator {
  let begun = false;
  let ended: StreamState['ended'] = null;
  let problem: string | null = null;
  let tokens: Tokens | null = null;
  let finishReason: string | null = null;
  let id = names.id;
  const queue = createBlockQueue(() => id);

  const begin = (chunk: JsonObject): string => {
    if (begun) return '';
    begun = true;
    id = filledText(chunk.id) ?? id;
    const model = filledText(chunk.model) ?? names.model;
    const ends = { stop_reason: null, stop_sequence: null, usage: messagesUsageOf(null) };
    const message = { id, type: 'message', role: 'assistant', model, content: [], ...ends };
    return formatEvent('message_start', { type: 'message_start', message });
  };

  const readDelta = (delta: JsonObject): string => {
    const { tool_calls: calls, function_call: legacyCall } = delta;
    queue.addText(answerTextOf(delta));
    for (const call of asArray(calls)) queue.addToolPiece(asObject(call));
    if (isObject(legacyCall)) queue.addToolPiece({ index: 'function_call', function: legacyCall });
    const events = queue.take();
    return events === '' && isThinking(delta) ? keepAlive : events;
  };

  const readChunk = (chunk: JsonObject): string => {
    tokens = readChatUsage(chunk.usage) ?? readChatUsage(asObject(chunk.x_groq).usage) ?? tokens;
    // Answers that were not asked for (`n`) have no place; a first chunk without choices says nothing of the answer.
    const choices = asArray(chunk.choices).map(asObject);
    const choice = choices.find(({ index }) => index === undefined || index === null || index === 0);
    if (!choice) return '';
    const events = begin(chunk) + readDelta(asObject(choice.delta));
    finishReason = asString(choice.finish_reason) ?? finishReason;
    return finishReason === null ? events : events + queue.takeAll();
  };

  const finish = (): string => {
    ended = 'whole';
    const rest = queue.takeAll();
    const delta = { stop_reason: stopReasonOf(finishReason, queue.toolCount() > 0), stop_sequence: null };
    const last = formatEvent('message_delta', { type: 'message_delta', delta, usage: messagesUsageOf(tokens) });
    return rest + last + formatEvent('message_stop', { type: 'message_stop' });
  };

  const breakOff = (reason: string): string => {
    ended = 'broken';
    problem = reason;
    return '';
  };

  return {
    push({ data }: SseEvent) {
      if (ended !== null || data === '') return '';
      if (data === '[DONE]') return begun ? finish() : '';
      const chunk = parseJson(data);
      if (!isObject(chunk)) return '';
      const { error } = chunk;
      if (error === undefined || error === null) return readChunk(chunk);
      return breakOff(asString(asObject(error).message) ?? asString(error) ?? 'the vendor reported an error');
    },
    end() {
      if (ended !== null) return '';
      return finishReason === null ? breakOff('the vendor ended the stream early') : finish();
    },
    state: () => ({ begun, ended, problem }),
  };
}

/** Sent while the model thinks, so that nobody on the way takes the connection for dead. */
const keepAlive = formatEvent('ping', { type: 'ping' });
