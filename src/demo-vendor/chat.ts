/** Handles POST /v1/chat/completions as OpenAI does, both with and without streaming. */

import {
  type ComposeReply,
  type Conversation,
  composeReply,
  parseToolChoice,
  type Reply,
  readContent,
  readTexts,
  type Tool,
} from './conversation.ts';
import { badRequest } from './errors.ts';
import { asCount, asObject, asObjects, asString, type JsonObject } from './json.ts';
import { createdAt, type DemoRequest, type DemoResponse, type EventStream, jsonResponse } from './response.ts';
import { splitArguments, splitText } from './tokens.ts';

/** Returns a completion. If there are no messages in the body, this returns the same 400 as OpenAI. */
export function handleChat(request: DemoRequest, compose: ComposeReply = composeReply): DemoResponse {
  const { json, model, requestNumber } = request;
  if (!Array.isArray(json.messages) || json.messages.length === 0)
    return badRequest("Invalid 'messages': expected a list with at least one message.");
  const reply = compose(readConversation(json), request);
  if (json.stream === true) return { kind: 'stream', stream: chatStream(request, reply) };
  return jsonResponse({
    id: `chatcmpl-demo-${requestNumber}`,
    object: 'chat.completion',
    created: createdAt,
    model,
    choices: [{ index: 0, message: toMessage(reply, requestNumber), logprobs: null, finish_reason: finishReasons[reply.end] }],
    usage: toUsage(reply),
    service_tier: 'default',
    system_fingerprint: 'fp_demo',
  });
}

function readConversation(json: JsonObject): Conversation {
  const messages = asObjects(json.messages);
  const last = messages.at(-1);
  const format = asObject(json.response_format);
  return {
    ...readTexts(messages, textTypes),
    toolResult: last?.role === 'tool' ? readContent(last.content, textTypes).text : null,
    tools: asObjects(json.tools).map(toTool),
    toolChoice: parseToolChoice(json.tool_choice, (choice) => asObject(choice.function).name),
    schema:
      format.type === 'json_schema' ? asObject(asObject(format.json_schema).schema) : format.type === 'json_object' ? anyObject : null,
    maxTokens: asCount(json.max_completion_tokens) ?? asCount(json.max_tokens),
  };
}

function toTool(tool: JsonObject): Tool {
  const { name, parameters } = asObject(tool.function);
  return { name: asString(name), schema: asObject(parameters) };
}

function toMessage({ text, toolCalls }: Reply, requestNumber: number): object {
  if (toolCalls.length === 0) return { role: 'assistant', content: text, refusal: null, annotations: [] };
  const calls = toolCalls.map(({ name, arguments: argumentText }, index) => ({
    id: `call_demo_${requestNumber}_${index}`,
    type: 'function',
    function: { name, arguments: argumentText },
  }));
  return { role: 'assistant', content: null, refusal: null, tool_calls: calls };
}

export function toUsage({ inputTokens, outputTokens }: Reply) {
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
  };
}

function chatStream({ requestNumber, json, model }: DemoRequest, reply: Reply): EventStream {
  const includeUsage = asObject(json.stream_options).include_usage === true;
  // Every chunk of the response starts with this. There's a chunk for each word, so we only build it once.
  const head = `data: {"id":"chatcmpl-demo-${requestNumber}","object":"chat.completion.chunk","created":${createdAt},"model":${JSON.stringify(model)},"system_fingerprint":"fp_demo","choices":[`;
  const end = includeUsage ? '],"usage":null}\n\n' : ']}\n\n';
  const chunk = (delta: string, finishReason = 'null') =>
    `${head}{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finishReason}}${end}`;
  return {
    opening: [
      chunk(reply.toolCalls.length === 0 ? '{"role":"assistant","content":"","refusal":null}' : '{"role":"assistant","content":null}'),
    ],
    deltas: mapEach(toDeltas(reply, requestNumber), (delta) => chunk(delta)),
    closing: [
      chunk('{}', `"${finishReasons[reply.end]}"`),
      ...(includeUsage ? [`${head}],"usage":${JSON.stringify(toUsage(reply))}}\n\n`] : []),
      'data: [DONE]\n\n',
    ],
  };
}

function* toDeltas({ text, toolCalls }: Reply, requestNumber: number): Iterable<string> {
  for (const delta of splitText(text)) yield `{"content":${JSON.stringify(delta)}}`;
  for (const [index, { name, arguments: argumentText }] of toolCalls.entries()) {
    yield `{"tool_calls":[{"index":${index},"id":"call_demo_${requestNumber}_${index}","type":"function","function":{"name":${JSON.stringify(name)},"arguments":""}}]}`;
    for (const delta of splitArguments(argumentText))
      yield `{"tool_calls":[{"index":${index},"function":{"arguments":${JSON.stringify(delta)}}}]}`;
  }
}

export function* mapEach(values: Iterable<string>, change: (value: string) => string): Iterable<string> {
  for (const value of values) yield change(value);
}

const textTypes = ['text', 'refusal'];
const anyObject: JsonObject = { type: 'object', properties: { echo: { type: 'string' } } };
const finishReasons: Readonly<Record<Reply['end'], string>> = {
  stop: 'stop',
  length: 'length',
  tools: 'tool_calls',
};
