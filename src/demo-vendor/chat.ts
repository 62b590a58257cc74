/** POST /v1/chat/completions: OpenAI's chat, plain and streamed. */

import { type Conversation, composeReply, type Reply, readContent, type Tool, wholeInputTokens } from './conversation.ts';
import { errorAnswer, errorBody } from './errors.ts';
import { countOf, isObject, type JsonObject, objectOf, objectsOf, textOf } from './json.ts';
import { type Answer, CREATED_AT, type EventStream, jsonAnswer, type Question } from './response.ts';
import type { Script } from './scripts.ts';
import { splitArguments, splitPieces } from './tokens.ts';

/** Answers, or refuses what the real one refuses: no messages, an unknown role. */
export function answerChat(question: Question): Answer {
  const { json, script, body } = question;
  const messages = json.messages;
  if (!Array.isArray(messages) || messages.length === 0) {
    return errorAnswer('openai', { status: 400, message: "Invalid 'messages': expected a list with at least one message." });
  }
  const reply = composeReply(readConversation(json), script, body);
  if (json.stream === true) return { kind: 'stream', stream: chatStream(question, reply) };
  return jsonAnswer({
    id: `chatcmpl-demo-${question.order}`,
    object: 'chat.completion',
    created: CREATED_AT,
    model: script.model,
    choices: [{ index: 0, message: messageOf(reply, question.order), logprobs: null, finish_reason: FINISH_REASONS[reply.end] }],
    ...(script.usage === 'none' ? {} : { usage: usageOf(reply, script) }),
    service_tier: 'default',
    system_fingerprint: 'fp_demo',
  });
}

function readConversation(json: JsonObject): Conversation {
  const messages = objectsOf(json.messages);
  const contents = messages.map((message) => readContent(message.content, TEXT_TYPES));
  const lastUser = messages.findLastIndex((message) => message.role === 'user');
  const format = objectOf(json.response_format);
  return {
    userText: contents[lastUser]?.text ?? '',
    attachments: contents[lastUser]?.attachments ?? 0,
    toolResult: messages.at(-1)?.role === 'tool' ? (contents.at(-1)?.text ?? '') : null,
    characters: contents.reduce((sum, content) => sum + content.text.length, 0),
    tools: objectsOf(json.tools).map(toolOf),
    toolChoice: isObject(json.tool_choice)
      ? { named: textOf(objectOf(json.tool_choice.function).name) }
      : json.tool_choice === 'required' || json.tool_choice === 'none'
        ? json.tool_choice
        : 'auto',
    schema:
      format.type === 'json_schema' ? objectOf(objectOf(format.json_schema).schema) : format.type === 'json_object' ? ANY_OBJECT : null,
    maxTokens: countOf(json.max_completion_tokens) ?? countOf(json.max_tokens),
  };
}

function toolOf(tool: JsonObject): Tool {
  const { name, parameters } = objectOf(tool.function);
  return { name: textOf(name), schema: objectOf(parameters) };
}

function messageOf({ text, toolCalls }: Reply, order: number): object {
  if (toolCalls.length === 0) return { role: 'assistant', content: text, refusal: null, annotations: [] };
  const calls = toolCalls.map(({ name, arguments: argumentText }, index) => ({
    id: `call_demo_${order}_${index}`,
    type: 'function',
    function: { name, arguments: argumentText },
  }));
  return { role: 'assistant', content: null, refusal: null, tool_calls: calls };
}

function usageOf(reply: Reply, script: Script): object {
  const promptTokens = wholeInputTokens(reply, script);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: reply.outputTokens,
    total_tokens: promptTokens + reply.outputTokens,
    prompt_tokens_details: { cached_tokens: script.cachedTokens, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
  };
}

function chatStream({ order, json, script }: Question, reply: Reply): EventStream {
  const usageAsked = objectOf(json.stream_options).include_usage === true && script.usage === 'normal';
  const usage = JSON.stringify(usageOf(reply, script));
  // The parts that all chunks share are made once: in a benchmark this is the vendor, and a chunk is sent for every word.
  const head = `data: {"id":"chatcmpl-demo-${order}","object":"chat.completion.chunk","created":${CREATED_AT},"model":${JSON.stringify(script.model)},"system_fingerprint":"fp_demo","choices":[`;
  const end = usageAsked ? '],"usage":null}\n\n' : ']}\n\n';
  const chunk = (delta: string, finishReason = 'null', tail = end) =>
    `${head}{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finishReason}}${tail}`;
  const finishTail = script.usage === 'in-finish' ? `],"usage":${usage}}\n\n` : end;
  return {
    opening: [
      chunk(reply.toolCalls.length === 0 ? '{"role":"assistant","content":"","refusal":null}' : '{"role":"assistant","content":null}'),
    ],
    pieces: map(deltasOf(reply, order, script), (delta) => chunk(delta)),
    closing: [
      chunk('{}', `"${FINISH_REASONS[reply.end]}"`, finishTail),
      ...(usageAsked ? [`${head}],"usage":${usage}}\n\n`] : []),
      ...(script.done ? ['data: [DONE]\n\n'] : []),
    ],
    fault: () => `data: ${JSON.stringify(errorBody('openai', { status: 500, message: 'The server had an error while answering.' }))}\n\n`,
  };
}

function* deltasOf(reply: Reply, order: number, script: Script): Iterable<string> {
  for (const piece of splitPieces(reply.text)) yield `{"content":${JSON.stringify(piece)}}`;
  const calls = reply.toolCalls.map(({ name, arguments: argumentText }, index) => [
    `{"tool_calls":[{"index":${index},"id":"call_demo_${order}_${index}","type":"function","function":{"name":${JSON.stringify(name)},"arguments":""}}]}`,
    ...splitArguments(argumentText).map((piece) => `{"tool_calls":[{"index":${index},"function":{"arguments":${JSON.stringify(piece)}}}]}`),
  ]);
  if (script.content.kind !== 'tools-interleaved') {
    yield* calls.flat();
    return;
  }
  for (let turn = 0; calls.some((call) => turn < call.length); turn += 1) {
    yield* calls.flatMap((call) => call.slice(turn, turn + 1));
  }
}

function* map(values: Iterable<string>, change: (value: string) => string): Iterable<string> {
  for (const value of values) yield change(value);
}

const TEXT_TYPES = ['text', 'refusal'];
const ANY_OBJECT: JsonObject = { type: 'object', properties: { echo: { type: 'string' } } };
const FINISH_REASONS: Readonly<Record<Reply['end'], string>> = {
  stop: 'stop',
  length: 'length',
  tools: 'tool_calls',
  filtered: 'content_filter',
};
