/** Handles POST /v1/responses like OpenAI, as JSON or as named events with increasing sequence numbers. */

import { type Conversation, parseToolChoice, type Reply, readContent, readTexts } from '../../../src/demo-vendor/conversation.ts';
import { errorResponse, openai } from '../../../src/demo-vendor/errors.ts';
import { asCount, asObject, asObjects, asString, type JsonObject } from '../../../src/demo-vendor/json.ts';
import { createdAt, type DemoRequest, type DemoResponse, jsonResponse } from '../../../src/demo-vendor/response.ts';
import { splitArguments, splitText } from '../../../src/demo-vendor/tokens.ts';
import { composeReasoning, composeScripted } from './compose.ts';
import { type ScriptedStream, scriptOf } from './response.ts';
import type { Script } from './scripts.ts';

interface ResponsesReply extends Reply {
  readonly reasoning: string;
  readonly script: Script;
}

/** Returns a response object, or a 400 if there's no input. */
export function handleResponses(request: DemoRequest): DemoResponse {
  const { json } = request;
  if (typeof json.input !== 'string' && !Array.isArray(json.input)) {
    return errorResponse(openai, { status: 400, message: "Missing required parameter: 'input'.", code: 'missing_required_parameter' });
  }
  const script = scriptOf(request);
  const conversation = readConversation(json);
  const reply = { ...composeScripted(conversation, request), reasoning: composeReasoning(conversation, script), script };
  if (json.stream === true) return { kind: 'stream', stream: responsesStream(request, reply) };
  return jsonResponse(toResponseBody(request, reply, true));
}

function readConversation(json: JsonObject): Conversation {
  const items: readonly JsonObject[] = typeof json.input === 'string' ? [{ role: 'user', content: json.input }] : asObjects(json.input);
  const last = items.at(-1);
  const texts = readTexts(items, textTypes);
  const format = asObject(asObject(json.text).format);
  return {
    ...texts,
    toolResult: last?.type === 'function_call_output' ? readContent(last.output, textTypes).text : null,
    characters: texts.characters + asString(json.instructions).length,
    tools: asObjects(json.tools)
      .filter((tool) => tool.type === 'function')
      .map((tool) => ({ name: asString(tool.name), schema: asObject(tool.parameters) })),
    toolChoice: parseToolChoice(json.tool_choice, ({ name }) => name),
    schema: format.type === 'json_schema' ? asObject(format.schema) : null,
    maxTokens: asCount(json.max_output_tokens),
  };
}

function toResponseBody(request: DemoRequest, reply: ResponsesReply, finished: boolean): object {
  const { requestNumber, json, model } = request;
  const incompleteReason = incompleteReasonOf(reply);
  return {
    id: `resp_demo_${requestNumber}`,
    object: 'response',
    created_at: createdAt,
    status: !finished ? 'in_progress' : incompleteReason === undefined ? 'completed' : 'incomplete',
    error: null,
    incomplete_details: finished && incompleteReason !== undefined ? { reason: incompleteReason } : null,
    instructions: json.instructions ?? null,
    model,
    output: finished ? toOutputItems(reply, requestNumber) : [],
    parallel_tool_calls: true,
    previous_response_id: json.previous_response_id ?? null,
    tool_choice: json.tool_choice ?? 'auto',
    tools: json.tools ?? [],
    usage: finished && reply.script.usage !== 'none' ? toUsage(reply) : null,
    metadata: json.metadata ?? {},
  };
}

function toUsage({ script, ...reply }: ResponsesReply): object {
  const inputTokens = reply.inputTokens + script.cachedTokens;
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: script.cachedTokens },
    output_tokens: reply.outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: inputTokens + reply.outputTokens,
  };
}

function toOutputItems({ reasoning, text, toolCalls }: ResponsesReply, requestNumber: number): readonly object[] {
  const thought = reasoning === '' ? [] : [reasoningItem(requestNumber, [summaryPart(reasoning)])];
  if (toolCalls.length === 0) return [...thought, messageItem(requestNumber, 'completed', [textPart(text)])];
  const calls = toolCalls.map(({ name, arguments: argumentText }, index) =>
    callItem(requestNumber, index, 'completed', name, argumentText),
  );
  return [...thought, ...calls];
}

function reasoningItem(requestNumber: number, summary: readonly object[]): object {
  return { id: `rs_demo_${requestNumber}`, type: 'reasoning', summary };
}

function summaryPart(text: string): object {
  return { type: 'summary_text', text };
}

function messageItem(requestNumber: number, status: string, content: readonly object[]): object {
  return { id: `msg_demo_${requestNumber}`, type: 'message', status, role: 'assistant', content };
}

function textPart(text: string): object {
  return { type: 'output_text', text, annotations: [] };
}

function callItem(requestNumber: number, index: number, status: string, name: string, argumentText: string): object {
  return {
    id: `fc_demo_${requestNumber}_${index}`,
    type: 'function_call',
    status,
    call_id: `call_demo_${requestNumber}_${index}`,
    name,
    arguments: argumentText,
  };
}

/**
 * Returns the event stream. Its three parts share a sequence counter, so they're generated in order while we send them.
 */
function responsesStream(request: DemoRequest, reply: ResponsesReply): ScriptedStream {
  const { requestNumber } = request;
  let sequence = 0;
  const event = (type: string, members: object): string => {
    const data = JSON.stringify({ type, sequence_number: sequence, ...members });
    sequence += 1;
    return `event: ${type}\ndata: ${data}\n\n`;
  };
  const firstIndex = reply.reasoning === '' ? 0 : 1;
  const location = { item_id: `msg_demo_${requestNumber}`, output_index: firstIndex, content_index: 0 };
  const isMessage = reply.toolCalls.length === 0;

  function* opening(): Iterable<string> {
    yield event('response.created', { response: toResponseBody(request, reply, false) });
    yield event('response.in_progress', { response: toResponseBody(request, reply, false) });
    if (reply.reasoning === '') yield* openMessage();
  }

  function* openMessage(): Iterable<string> {
    if (!isMessage) return;
    yield event('response.output_item.added', { output_index: firstIndex, item: messageItem(requestNumber, 'in_progress', []) });
    yield event('response.content_part.added', { ...location, part: textPart('') });
  }

  function* reasoningDeltas(text: string): Iterable<string> {
    const place = { item_id: `rs_demo_${requestNumber}`, output_index: 0, summary_index: 0 };
    yield event('response.output_item.added', { output_index: 0, item: reasoningItem(requestNumber, []) });
    yield event('response.reasoning_summary_part.added', { ...place, part: summaryPart('') });
    for (const delta of splitText(text)) yield event('response.reasoning_summary_text.delta', { ...place, delta });
    yield event('response.reasoning_summary_text.done', { ...place, text });
    yield event('response.reasoning_summary_part.done', { ...place, part: summaryPart(text) });
    yield event('response.output_item.done', { output_index: 0, item: reasoningItem(requestNumber, [summaryPart(text)]) });
    yield* openMessage();
  }

  function* deltas(): Iterable<string> {
    if (reply.reasoning !== '') yield* reasoningDeltas(reply.reasoning);
    for (const delta of splitText(reply.text)) yield event('response.output_text.delta', { ...location, delta, logprobs: [] });
    for (const [index, { name, arguments: argumentText }] of reply.toolCalls.entries()) {
      const outputIndex = firstIndex + index;
      const callLocation = { item_id: `fc_demo_${requestNumber}_${index}`, output_index: outputIndex };
      yield event('response.output_item.added', {
        output_index: outputIndex,
        item: callItem(requestNumber, index, 'in_progress', name, ''),
      });
      for (const delta of splitArguments(argumentText)) yield event('response.function_call_arguments.delta', { ...callLocation, delta });
      yield event('response.function_call_arguments.done', { ...callLocation, name, arguments: argumentText });
      yield event('response.output_item.done', {
        output_index: outputIndex,
        item: callItem(requestNumber, index, 'completed', name, argumentText),
      });
    }
  }

  function* closing(): Iterable<string> {
    if (isMessage) {
      yield event('response.output_text.done', { ...location, text: reply.text, logprobs: [] });
      yield event('response.content_part.done', { ...location, part: textPart(reply.text) });
      const item = messageItem(requestNumber, 'completed', [textPart(reply.text)]);
      yield event('response.output_item.done', { output_index: firstIndex, item });
    }
    const type = incompleteReasonOf(reply) === undefined ? 'response.completed' : 'response.incomplete';
    yield event(type, { response: toResponseBody(request, reply, true) });
  }

  return {
    opening: opening(),
    deltas: deltas(),
    closing: closing(),
    error: () => event('error', { code: 'server_error', message: 'The server had an error while answering.', param: null }),
  };
}

const textTypes = ['input_text', 'output_text', 'text'];

function incompleteReasonOf({ end, script }: ResponsesReply): string | undefined {
  return script.filtered ? 'content_filter' : end === 'length' ? 'max_output_tokens' : undefined;
}
