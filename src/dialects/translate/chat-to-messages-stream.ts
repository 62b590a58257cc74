/**
 * Translates the stream of a chat vendor for a messages caller.
 *
 * Chat deltas may interleave but content blocks of the messages dialect can't, so deltas of later blocks wait until the
 * current block ends. A tool call ends when its arguments are a complete JSON object and another block is waiting. This
 * way we can forward calls immediately if the vendor sends them one after the other.
 */

import { formatEvent } from '../../core/sse.ts';
import { createToolCallReader } from '../chat/tool-calls.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';
import { createBlockQueue } from './block-queue.ts';
import { readReasoning } from './chat-reasoning.ts';
import { createChatSource } from './chat-source.ts';
import { getResponseText } from './chat-text.ts';
import type { ThinkingOptions } from './chat-to-messages.ts';
import { type ResponseIdentity, toResponseId } from './ids.ts';
import { toMessagesUsage, toStopReason } from './stop-reasons.ts';
import { createStreamTranslator, type StreamTranslator } from './stream.ts';

export function createStreamToMessages(identity: ResponseIdentity, { hidesThinking = false }: ThinkingOptions = {}): StreamTranslator {
  let { id } = identity;
  const source = createChatSource();
  const calls = createToolCallReader();
  const queue = createBlockQueue(() => id);

  return createStreamTranslator(source, {
    start({ chunk }) {
      id = toResponseId('messages', asNonEmptyString(chunk.id) ?? id);
      const model = asNonEmptyString(chunk.model) ?? identity.model;
      const end = { stop_reason: null, stop_sequence: null, usage: toMessagesUsage(null) };
      const message = { id, type: 'message', role: 'assistant', model, content: [], ...end };
      return formatEvent('message_start', { type: 'message_start', message });
    },
    add({ delta }) {
      const reasoning = readReasoning(delta);
      if (!hidesThinking) for (const part of reasoning) queue.addReasoning(part);
      queue.addText(getResponseText(delta));
      for (const call of calls.read(delta)) queue.addCall(call);
      if (source.end().finishReason !== null) return queue.drainAll();
      const events = queue.drainReady();
      return events === '' && reasoning.length > 0 ? ping : events;
    },
    finish() {
      const { finishReason, tokens } = source.end();
      const delta = { stop_reason: toStopReason(finishReason, calls.count() > 0), stop_sequence: null };
      const last = formatEvent('message_delta', { type: 'message_delta', delta, usage: toMessagesUsage(tokens) });
      return queue.drainAll() + last + formatEvent('message_stop', { type: 'message_stop' });
    },
    keepAlive: ping,
  });
}

const ping = formatEvent('ping', { type: 'ping' });
