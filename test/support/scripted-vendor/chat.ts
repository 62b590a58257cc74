/**
 * Extends the demo vendor's chat completions with reasoning, cached tokens and unusual streams, if the model's name
 * asks for them.
 */
import { handleChat, mapEach, toUsage } from '../../../src/demo-vendor/chat.ts';
import type { Reply } from '../../../src/demo-vendor/conversation.ts';
import { asObject, asObjects, isObject, type JsonObject } from '../../../src/demo-vendor/json.ts';
import type { DemoRequest, DemoResponse, EventStream } from '../../../src/demo-vendor/response.ts';
import { splitText } from '../../../src/demo-vendor/tokens.ts';
import { composeReasoning, composeScripted } from './compose.ts';
import { mapEvent, mapJson, mapStream, scriptOf } from './response.ts';
import type { Script } from './scripts.ts';

export function handleScriptedChat(request: DemoRequest): DemoResponse {
  const script = scriptOf(request);
  const json = script.usage === 'normal' ? request.json : { ...request.json, stream_options: null };
  let reasoning = '';
  let reply: Reply | null = null;
  const outgoing = handleChat({ ...request, json }, (conversation) => {
    reasoning = composeReasoning(conversation, script);
    reply = composeScripted(conversation, request);
    return reply;
  });
  if (reply === null) return outgoing;
  const usage = toUsage(reply);
  const streamed = mapStream(outgoing, (stream) => changeStream(stream, script, reasoning));
  const isUnchanged = !script.filtered && reasoning === '' && script.cachedTokens === 0 && script.usage === 'normal';
  return isUnchanged ? streamed : mapJson(streamed, (completion) => changeCompletion(completion, { script, reasoning, usage }));
}

function changeCompletion(
  completion: JsonObject,
  { script, reasoning, usage }: { script: Script; reasoning: string; usage: JsonObject },
): JsonObject {
  const choices = asObjects(completion.choices).map((choice) => ({
    ...choice,
    ...(isObject(choice.message) && reasoning !== '' && { message: { ...choice.message, reasoning_content: reasoning } }),
    ...(script.filtered && choice.finish_reason === 'stop' && { finish_reason: 'content_filter' }),
  }));
  const { usage: given, ...rest } = completion;
  const isLast = choices.some(({ finish_reason }) => finish_reason !== null);
  const reported = script.usage === 'none' ? undefined : script.usage === 'in-finish' && isLast ? usage : given;
  return { ...rest, choices, ...(reported !== undefined && { usage: isObject(reported) ? withCached(reported, script) : reported }) };
}

function withCached(usage: JsonObject, { cachedTokens }: Script): JsonObject {
  return {
    ...usage,
    prompt_tokens: Number(usage.prompt_tokens) + cachedTokens,
    total_tokens: Number(usage.total_tokens) + cachedTokens,
    prompt_tokens_details: { ...asObject(usage.prompt_tokens_details), cached_tokens: cachedTokens },
  };
}

function changeStream({ opening, deltas, closing }: EventStream, { content, done }: Script, reasoning: string): EventStream {
  const [first = ''] = opening;
  const thoughts = mapEach(splitText(reasoning), (reasoning_content) =>
    mapEvent(first, (chunk) => ({
      ...chunk,
      choices: asObjects(chunk.choices).map((choice) => ({ ...choice, delta: { reasoning_content } })),
    })),
  );
  return {
    opening,
    deltas: concat(thoughts, content.kind === 'tools-interleaved' ? interleave([...deltas]) : deltas),
    closing: done ? closing : [...closing].filter((event) => event !== 'data: [DONE]\n\n'),
  };
}

/** Reorders the deltas so that they alternate between the tool calls. */
function interleave(deltas: readonly string[]): readonly string[] {
  const calls = [...Map.groupBy(deltas, (event) => /"tool_calls":\[\{"index":(\d+)/.exec(event)?.[1]).values()];
  const turns = Math.max(...calls.map(({ length }) => length));
  return Array.from({ length: turns }, (_, turn) => calls.flatMap((call) => call.slice(turn, turn + 1))).flat();
}

function* concat(...parts: readonly Iterable<string>[]): Iterable<string> {
  for (const part of parts) yield* part;
}
