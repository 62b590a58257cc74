/**
 * Translates the stream of a chat vendor for a messages caller. Pure.
 *
 * Content blocks of the messages dialect do not interleave, chat deltas may: deltas of a later block wait until the current block has
 * ended. A tool call ends when its arguments are a complete JSON object and another block is waiting, so calls that a vendor sends one
 * after the other are forwarded at once.
 */

import { asArray, asObject, asString, isObject, type JsonObject, parseJson } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';
import { formatEvent } from '../../core/sse.ts';
import { parseChatUsage } from '../contract/token-usage.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';
import { createBlockQueue } from './block-queue.ts';
import { readReasoning } from './chat-reasoning.ts';
import { getResponseText } from './chat-text.ts';
import type { ThinkingOptions } from './chat-to-messages.ts';
import { toResponseId } from './response-ids.ts';
import { toMessagesUsage, toStopReason } from './stop-reasons.ts';
import type { StreamState, StreamTranslator } from './stream.ts';
import type { ResponseIdentity } from './tool-ids.ts';

export function createStreamToMessages(identity: ResponseIdentity, options: ThinkingOptions = {}): StreamTranslator {
  let begun = false;
  let ended: StreamState['ended'] = null;
  let problem: string | null = null;
  let tokens: Tokens | null = null;
  let finishReason: string | null = null;
  let id = identity.id;
  const queue = createBlockQueue(() => id);

  const startMessage = (chunk: JsonObject): string => {
    if (begun) return '';
    begun = true;
    id = toResponseId('messages', asNonEmptyString(chunk.id) ?? id);
    const model = asNonEmptyString(chunk.model) ?? identity.model;
    const end = { stop_reason: null, stop_sequence: null, usage: toMessagesUsage(null) };
    const message = { id, type: 'message', role: 'assistant', model, content: [], ...end };
    return formatEvent('message_start', { type: 'message_start', message });
  };

  const addDelta = (delta: JsonObject): string => {
    const { tool_calls: calls, function_call: legacyCall } = delta;
    const reasoning = readReasoning(delta);
    if (!options.hidesThinking) for (const part of reasoning) queue.addReasoning(part);
    queue.addText(getResponseText(delta));
    for (const call of asArray(calls)) queue.addToolDelta(asObject(call));
    if (isObject(legacyCall)) queue.addToolDelta({ index: 'function_call', function: legacyCall });
    const events = queue.drainReady();
    return events === '' && reasoning.length > 0 ? keepAlive : events;
  };

  const addChunk = (chunk: JsonObject): string => {
    tokens = parseChatUsage(chunk.usage) ?? parseChatUsage(asObject(chunk.x_groq).usage) ?? tokens;
    // Further choices (`n` > 1) have no equivalent; a first chunk without choices carries no content.
    const choices = asArray(chunk.choices).map(asObject);
    const choice = choices.find(({ index }) => index === undefined || index === null || index === 0);
    if (!choice) return '';
    const events = startMessage(chunk) + addDelta(asObject(choice.delta));
    finishReason = asString(choice.finish_reason) ?? finishReason;
    return finishReason === null ? events : events + queue.drainAll();
  };

  const finish = (): string => {
    ended = 'whole';
    const rest = queue.drainAll();
    const delta = { stop_reason: toStopReason(finishReason, queue.toolCount() > 0), stop_sequence: null };
    const last = formatEvent('message_delta', { type: 'message_delta', delta, usage: toMessagesUsage(tokens) });
    return rest + last + formatEvent('message_stop', { type: 'message_stop' });
  };

  const fail = (reason: string): string => {
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
      if (error === undefined || error === null) return addChunk(chunk);
      return fail(asString(asObject(error).message) ?? asString(error) ?? 'the vendor reported an error');
    },
    end() {
      if (ended !== null) return '';
      return finishReason === null ? fail('the vendor ended the stream early') : finish();
    },
    state: () => ({ begun, ended, problem }),
  };
}

/** Sent while the model thinks, so that no proxy considers the connection idle. */
const keepAlive = formatEvent('ping', { type: 'ping' });
