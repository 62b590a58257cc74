/** POST /v1/chat/completions: OpenAI's chat completions, plain and streamed. */

import {
  type Conversation,
  composeReply,
  parseToolChoice,
  type Reply,
  readContent,
  readTexts,
  type Tool,
  wholeInputTokens,
} from './conversation.ts';
import { badRequest, errorBody } from './errors.ts';
import { asCount, asObject, asObjects, asString, type JsonObject } from './json.ts';
import { createdAt, type EventStream, type IncomingRequest, jsonResponse, type OutgoingResponse } from './response.ts';
import type { Script } from './scripts.ts';
import { splitArguments, splitText } from './tokens.ts';

/** Returns a completion, or the 400 that OpenAI returns for a body without messages. */
export function handleChat(request: IncomingRequest): OutgoingResponse {
  const { json, script, body } = request;
  const messages = json.messages;
  if (!Array.isArray(messages) || messages.length === 0)
    return badRequest("Invalid 'messages': expected a list with at least one message.");
  const reply = composeReply(readConversation(json), script, body);
  if (json.stream === true) return { kind: 'stream', stream: chatStream(request, reply) };
  return jsonResponse({
    id: `chatcmpl-demo-${request.requestNumber}`,
    object: 'chat.completion',
    created: createdAt,
    model: script.model,
    choices: [{ index: 0, message: toMessage(reply, request.requestNumber), logprobs: null, finish_reason: finishReasons[reply.end] }],
    ...(script.usage === 'none' ? {} : { usage: toUsage(reply, script) }),
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

function toMessage({ reasoning, text, toolCalls }: Reply, requestNumber: number): object {
  const thought = reasoning === '' ? {} : { reasoning_content: reasoning };
  if (toolCalls.length === 0) return { role: 'assistant', content: text, ...thought, refusal: null, annotations: [] };
  const calls = toolCalls.map(({ name, arguments: argumentText }, index) => ({
    id: `call_demo_${requestNumber}_${index}`,
    type: 'function',
    function: { name, arguments: argumentText },
  }));
  return { role: 'assistant', content: null, ...thought, refusal: null, tool_calls: calls };
}

function toUsage(reply: Reply, script: Script): object {
  const promptTokens = wholeInputTokens(reply, script);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: reply.outputTokens,
    total_tokens: promptTokens + reply.outputTokens,
    prompt_tokens_details: { cached_tokens: script.cachedTokens, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
  };
}

function chatStream({ requestNumber, json, script }: IncomingRequest, reply: Reply): EventStream {
  const includeUsage = asObject(json.stream_options).include_usage === true && script.usage === 'normal';
  const usage = JSON.stringify(toUsage(reply, script));
  // Built once, because all chunks share it: benchmarks use this vendor, and every term of a text is one chunk.
  const head = `data: {"id":"chatcmpl-demo-${requestNumber}","object":"chat.completion.chunk","created":${createdAt},"model":${JSON.stringify(script.model)},"system_fingerprint":"fp_demo","choices":[`;
  const end = includeUsage ? '],"usage":null}\n\n' : ']}\n\n';
  const chunk = (delta: string, finishReason = 'null', tail = end) =>
    `${head}{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finishReason}}${tail}`;
  const finishTail = script.usage === 'in-finish' ? `],"usage":${usage}}\n\n` : end;
  return {
    opening: [
      chunk(reply.toolCalls.length === 0 ? '{"role":"assistant","content":"","refusal":null}' : '{"role":"assistant","content":null}'),
    ],
    deltas: mapEach(toDeltas(reply, requestNumber, script), (delta) => chunk(delta)),
    closing: [
      chunk('{}', `"${finishReasons[reply.end]}"`, finishTail),
      ...(includeUsage ? [`${head}],"usage":${usage}}\n\n`] : []),
      ...(script.done ? ['data: [DONE]\n\n'] : []),
    ],
    error: () => `data: ${JSON.stringify(errorBody('openai', { status: 500, message: 'The server had an error while answering.' }))}\n\n`,
  };
}

function* toDeltas(reply: Reply, requestNumber: number, script: Script): Iterable<string> {
  for (const delta of splitText(reply.reasoning)) yield `{"reasoning_content":${JSON.stringify(delta)}}`;
  for (const delta of splitText(reply.text)) yield `{"content":${JSON.stringify(delta)}}`;
  const calls = reply.toolCalls.map(({ name, arguments: argumentText }, index) => [
    `{"tool_calls":[{"index":${index},"id":"call_demo_${requestNumber}_${index}","type":"function","function":{"name":${JSON.stringify(name)},"arguments":""}}]}`,
    ...splitArguments(argumentText).map((delta) => `{"tool_calls":[{"index":${index},"function":{"arguments":${JSON.stringify(delta)}}}]}`),
  ]);
  if (script.content.kind !== 'tools-interleaved') {
    yield* calls.flat();
    return;
  }
  for (let turn = 0; calls.some((call) => turn < call.length); turn += 1) {
    yield* calls.flatMap((call) => call.slice(turn, turn + 1));
  }
}

function* mapEach(values: Iterable<string>, change: (value: string) => string): Iterable<string> {
  for (const value of values) yield change(value);
}

const textTypes = ['text', 'refusal'];
const anyObject: JsonObject = { type: 'object', properties: { echo: { type: 'string' } } };
const finishReasons: Readonly<Record<Reply['end'], string>> = {
  stop: 'stop',
  length: 'length',
  tools: 'tool_calls',
  filtered: 'content_filter',
};
