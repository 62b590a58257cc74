/** POST /v1/messages: Anthropic's messages, plain and as the full sequence of events. */

import { type Conversation, composeReply, parseToolChoice, type Reply, readContent, readTexts } from './conversation.ts';
import { errorBody, errorResponse } from './errors.ts';
import { asCount, asObject, asObjects, asString, type JsonObject } from './json.ts';
import { type EventStream, type IncomingRequest, jsonResponse, type OutgoingResponse } from './response.ts';
import type { Script } from './scripts.ts';
import { splitArguments, splitText } from './tokens.ts';

/** Returns a message, or the 400 that Anthropic returns for a missing version header, `max_tokens` or messages. */
export function handleMessages(request: IncomingRequest): OutgoingResponse {
  const { json, script, body, headers } = request;
  const fault = findRequestError(json, headers['anthropic-version']);
  if (fault !== null) return errorResponse('anthropic', { status: 400, message: fault });
  const reply = composeReply(readConversation(json), script, body);
  if (json.stream === true) return { kind: 'stream', stream: messagesStream(request, reply) };
  return jsonResponse({
    ...envelope(request),
    content: toBlocks(reply, request.requestNumber),
    stop_reason: stopReasons[reply.end],
    stop_sequence: null,
    ...usageMember(script, reply, reply.outputTokens),
  });
}

/** POST /v1/messages/count_tokens. Like Anthropic's, it rejects `max_tokens`. */
export function handleCountTokens({ json, headers, script, body }: IncomingRequest): OutgoingResponse {
  const fault =
    json.max_tokens === undefined
      ? findRequestError({ ...json, max_tokens: 1 }, headers['anthropic-version'])
      : 'max_tokens: Extra inputs are not permitted';
  if (fault !== null) return errorResponse('anthropic', { status: 400, message: fault });
  return jsonResponse({ input_tokens: composeReply(readConversation(json), script, body).inputTokens });
}

function findRequestError(json: JsonObject, version: unknown): string | null {
  if (typeof version !== 'string') return 'anthropic-version: header is required';
  if (asCount(json.max_tokens) === null) return 'max_tokens: Field required';
  if (!Array.isArray(json.messages) || json.messages.length === 0) return 'messages: at least one message is required';
  return null;
}

function readConversation(json: JsonObject): Conversation {
  const messages = asObjects(json.messages);
  const texts = readTexts(messages, textTypes);
  const results = asObjects(messages.at(-1)?.content).filter((block) => block.type === 'tool_result');
  const choice = asObject(json.tool_choice);
  const format = asObject(asObject(json.output_config).format);
  return {
    ...texts,
    toolResult: results.length === 0 ? null : results.map((block) => readContent(block.content, textTypes).text).join('\n'),
    characters: texts.characters + readContent(json.system, textTypes).text.length,
    tools: asObjects(json.tools).map((tool) => ({ name: asString(tool.name), schema: asObject(tool.input_schema) })),
    toolChoice: parseToolChoice(choice.type === 'tool' ? choice : choice.type === 'any' ? 'required' : choice.type, ({ name }) => name),
    schema: format.type === 'json_schema' ? asObject(format.schema) : null,
    maxTokens: asCount(json.max_tokens),
  };
}

function envelope({ requestNumber, script }: IncomingRequest): object {
  return { id: `msg_demo_${requestNumber}`, type: 'message', role: 'assistant', model: script.model };
}

function toBlocks({ reasoning, text, toolCalls }: Reply, requestNumber: number): readonly object[] {
  const thinking = reasoning === '' ? [] : [{ type: 'thinking', thinking: reasoning, signature }];
  const blocks = toolCalls.map(({ name, arguments: argumentText }, index) => ({
    type: 'tool_use',
    id: `toolu_demo_${requestNumber}_${index}`,
    name,
    input: JSON.parse(argumentText),
  }));
  return text === '' ? [...thinking, ...blocks] : [...thinking, { type: 'text', text }, ...blocks];
}

function usageMember(script: Script, reply: Reply, outputTokens: number): object {
  if (script.usage === 'none') return {};
  const usage = {
    input_tokens: reply.inputTokens,
    cache_creation_input_tokens: script.cacheWrittenTokens,
    cache_read_input_tokens: script.cachedTokens,
    cache_creation: { ephemeral_5m_input_tokens: script.cacheWrittenTokens, ephemeral_1h_input_tokens: 0 },
    output_tokens: outputTokens,
    service_tier: 'standard',
  };
  return { usage };
}

function messagesStream(request: IncomingRequest, reply: Reply): EventStream {
  const { script, requestNumber } = request;
  const hasText = reply.text !== '';
  const thinks = reply.reasoning !== '';
  const message = { ...envelope(request), content: [], stop_reason: null, stop_sequence: null, ...usageMember(script, reply, 1) };
  const finalUsage = script.usage === 'none' ? {} : { usage: { output_tokens: reply.outputTokens } };
  return {
    opening: [event('message_start', { message }), ...(hasText && !thinks ? [textStart(0)] : []), event('ping', {})],
    deltas: thinks ? thoughtEvents(reply, requestNumber) : hasText ? textEvents(reply.text, 0) : toolEvents(reply, requestNumber, 0),
    closing: [
      ...(hasText ? [event('content_block_stop', { index: thinks ? 1 : 0 })] : []),
      event('message_delta', { delta: { stop_reason: stopReasons[reply.end], stop_sequence: null }, ...finalUsage }),
      event('message_stop', {}),
    ],
    error: () => `event: error\ndata: ${JSON.stringify(errorBody('anthropic', { status: 529, message: 'Overloaded' }))}\n\n`,
  };
}

function textStart(index: number): string {
  return event('content_block_start', { index, content_block: { type: 'text', text: '' } });
}

function* thoughtEvents(reply: Reply, requestNumber: number): Iterable<string> {
  yield event('content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } });
  for (const thinking of splitText(reply.reasoning)) yield blockDelta(0, { type: 'thinking_delta', thinking });
  yield blockDelta(0, { type: 'signature_delta', signature });
  yield event('content_block_stop', { index: 0 });
  if (reply.text === '') return yield* toolEvents(reply, requestNumber, 1);
  yield textStart(1);
  yield* textEvents(reply.text, 1);
}

/** Concatenates the most frequent event instead of serializing it. */
function* textEvents(text: string, index: number): Iterable<string> {
  for (const delta of splitText(text)) {
    yield `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{"type":"text_delta","text":${JSON.stringify(delta)}}}\n\n`;
  }
}

function* toolEvents(reply: Reply, requestNumber: number, firstIndex: number): Iterable<string> {
  for (const [position, { name, arguments: argumentText }] of reply.toolCalls.entries()) {
    const index = firstIndex + position;
    const block = { type: 'tool_use', id: `toolu_demo_${requestNumber}_${position}`, name, input: {} };
    yield event('content_block_start', { index, content_block: block });
    for (const delta of splitArguments(argumentText)) {
      yield blockDelta(index, { type: 'input_json_delta', partial_json: delta });
    }
    yield event('content_block_stop', { index });
  }
}

function blockDelta(index: number, delta: object): string {
  return event('content_block_delta', { index, delta });
}

function event(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
}

const signature = 'c2lnbmVk';
const textTypes = ['text'];
const stopReasons: Readonly<Record<Reply['end'], string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tools: 'tool_use',
  filtered: 'refusal',
};
