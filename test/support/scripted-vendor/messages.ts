/** Extends Anthropic's messages with thinking, a refusal and cached tokens, if the model's name asks for them. */
import { mapEach } from '../../../src/demo-vendor/chat.ts';
import { asObject, isObject, type JsonObject } from '../../../src/demo-vendor/json.ts';
import type { DemoRequest, DemoResponse, EventStream } from '../../../src/demo-vendor/response.ts';
import { splitText } from '../../../src/demo-vendor/tokens.ts';
import { event, handleMessages } from './anthropic-messages.ts';
import { composeReasoning, composeScripted } from './compose.ts';
import { mapJson, mapStream, scriptOf } from './response.ts';
import type { Script } from './scripts.ts';

export function handleScriptedMessages(request: DemoRequest): DemoResponse {
  const script = scriptOf(request);
  let reasoning = '';
  const outgoing = handleMessages(request, (conversation) => {
    reasoning = composeReasoning(conversation, script);
    return composeScripted(conversation, request);
  });
  const streamed = reasoning === '' ? outgoing : mapStream(outgoing, (stream) => withThinking(stream, reasoning));
  const isUnchanged = !script.filtered && reasoning === '' && !script.cachedTokens && !script.cacheWrittenTokens && script.usage !== 'none';
  return isUnchanged ? streamed : mapJson(streamed, (json) => changeJson(json, script, reasoning));
}

function changeJson(json: JsonObject, script: Script, reasoning: string): JsonObject {
  const { usage, ...rest } = json;
  const delta = asObject(json.delta);
  return {
    ...rest,
    ...(Array.isArray(json.content) &&
      json.stop_reason !== null &&
      reasoning !== '' && { content: [thinkingBlock(reasoning), ...json.content] }),
    ...(isObject(json.message) && { message: changeJson(json.message, script, '') }),
    ...(isObject(usage) && script.usage !== 'none' && { usage: withCached(usage, script) }),
    ...(script.filtered && json.stop_reason === 'end_turn' && { stop_reason: 'refusal' }),
    ...(script.filtered && delta.stop_reason === 'end_turn' && { delta: { ...delta, stop_reason: 'refusal' } }),
  };
}

/**
 * Adds cached tokens to the usage. The last event of a stream doesn't need them, because it only reports output tokens.
 */
function withCached(usage: JsonObject, { cachedTokens, cacheWrittenTokens }: Script): JsonObject {
  if (usage.input_tokens === undefined) return usage;
  return {
    ...usage,
    cache_creation_input_tokens: cacheWrittenTokens,
    cache_read_input_tokens: cachedTokens,
    cache_creation: { ephemeral_5m_input_tokens: cacheWrittenTokens, ephemeral_1h_input_tokens: 0 },
  };
}

/** Adds a thinking block at the beginning. The start of the text block moves to the deltas. */
function withThinking({ opening, deltas, closing }: EventStream, reasoning: string): EventStream {
  const isStart = (each: string): boolean => each.startsWith('event: content_block_start');
  const events = [...opening];
  function* thoughtsAndDeltas(): Iterable<string> {
    yield event('content_block_start', { index: 0, content_block: thinkingBlock('', '') });
    for (const thinking of splitText(reasoning)) yield blockDelta({ type: 'thinking_delta', thinking });
    yield blockDelta({ type: 'signature_delta', signature });
    yield event('content_block_stop', { index: 0 });
    yield* mapEach(events.filter(isStart), nextIndex);
    yield* mapEach(deltas, nextIndex);
  }
  return { opening: events.filter((each) => !isStart(each)), deltas: thoughtsAndDeltas(), closing: mapEach(closing, nextIndex) };
}

function blockDelta(delta: object): string {
  return event('content_block_delta', { index: 0, delta });
}

/** Adds one to the block index, which comes right after the type. */
function nextIndex(text: string): string {
  return text.replace(
    /^(data: \{"type":"content_block_\w+","index":)(\d+)/m,
    (_, head: string, index: string) => head + (Number(index) + 1),
  );
}

const signature = 'c2lnbmVk';

function thinkingBlock(thinking: string, signed = signature): object {
  return { type: 'thinking', thinking, signature: signed };
}
