/** Handles POST /v1/messages like Anthropic, as JSON or as a full sequence of events. */

import {
  type ComposeReply,
  type Conversation,
  composeReply,
  parseToolChoice,
  type Reply,
  readContent,
  readTexts,
} from '../../../src/demo-vendor/conversation.ts';
import { errorResponse } from '../../../src/demo-vendor/errors.ts';
import { asCount, asObject, asObjects, asString, type JsonObject } from '../../../src/demo-vendor/json.ts';
import { type DemoRequest, type DemoResponse, type EventStream, jsonResponse } from '../../../src/demo-vendor/response.ts';
import { splitArguments, splitText } from '../../../src/demo-vendor/tokens.ts';
import { anthropic } from './families.ts';

/**
 * Returns a message. If the version header, `max_tokens` or the messages are missing, returns the same 400 as
 * Anthropic.
 */
export function handleMessages(request: DemoRequest, compose: ComposeReply = composeReply): DemoResponse {
  const { json, headers, requestNumber } = request;
  const fault = findRequestError(json, headers['anthropic-version']);
  if (fault !== null) return errorResponse(anthropic, { status: 400, message: fault });
  const reply = compose(readConversation(json), request);
  if (json.stream === true) return { kind: 'stream', stream: messagesStream(request, reply) };
  return jsonResponse({
    ...envelope(request),
    content: toBlocks(reply, requestNumber),
    stop_reason: stopReasons[reply.end],
    stop_sequence: null,
    usage: toUsage(reply, reply.outputTokens),
  });
}

/** Handles POST /v1/messages/count_tokens. Like Anthropic, we reject `max_tokens`. */
export function handleCountTokens(request: DemoRequest): DemoResponse {
  const { json, headers } = request;
  const fault =
    json.max_tokens === undefined
      ? findRequestError({ ...json, max_tokens: 1 }, headers['anthropic-version'])
      : 'max_tokens: Extra inputs are not permitted';
  if (fault !== null) return errorResponse(anthropic, { status: 400, message: fault });
  return jsonResponse({ input_tokens: composeReply(readConversation(json), request).inputTokens });
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

function envelope({ requestNumber, model }: DemoRequest): object {
  return { id: `msg_demo_${requestNumber}`, type: 'message', role: 'assistant', model };
}

function toBlocks({ text, toolCalls }: Reply, requestNumber: number): readonly object[] {
  const blocks = toolCalls.map(({ name, arguments: argumentText }, index) => ({
    type: 'tool_use',
    id: `toolu_demo_${requestNumber}_${index}`,
    name,
    input: JSON.parse(argumentText),
  }));
  return text === '' ? blocks : [{ type: 'text', text }, ...blocks];
}

function toUsage({ inputTokens }: Reply, outputTokens: number): object {
  return {
    input_tokens: inputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
    output_tokens: outputTokens,
    service_tier: 'standard',
  };
}

function messagesStream(request: DemoRequest, reply: Reply): EventStream {
  const hasText = reply.text !== '';
  const message = { ...envelope(request), content: [], stop_reason: null, stop_sequence: null, usage: toUsage(reply, 1) };
  const textStart = event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
  const delta = { stop_reason: stopReasons[reply.end], stop_sequence: null };
  return {
    opening: [event('message_start', { message }), ...(hasText ? [textStart] : []), event('ping', {})],
    deltas: hasText ? textEvents(reply.text) : toolEvents(reply, request.requestNumber),
    closing: [
      ...(hasText ? [event('content_block_stop', { index: 0 })] : []),
      event('message_delta', { delta, usage: { output_tokens: reply.outputTokens } }),
      event('message_stop', {}),
    ],
  };
}

/** Most events are of this kind, so we concatenate strings, which is faster than JSON.stringify. */
function* textEvents(text: string): Iterable<string> {
  for (const delta of splitText(text)) {
    yield `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":${JSON.stringify(delta)}}}\n\n`;
  }
}

function* toolEvents({ toolCalls }: Reply, requestNumber: number): Iterable<string> {
  for (const [index, { name, arguments: argumentText }] of toolCalls.entries()) {
    const block = { type: 'tool_use', id: `toolu_demo_${requestNumber}_${index}`, name, input: {} };
    yield event('content_block_start', { index, content_block: block });
    for (const delta of splitArguments(argumentText)) {
      yield event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: delta } });
    }
    yield event('content_block_stop', { index });
  }
}

export function event(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
}

const textTypes = ['text'];
const stopReasons: Readonly<Record<Reply['end'], string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tools: 'tool_use',
};
