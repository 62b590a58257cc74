import { asObject, type JsonObject } from '../../../core/json/narrow.ts';
import { parseMessagesUsage } from '../../contract/token-usage.ts';
import { asLosslessObject, asNonEmptyString, toPlainNumbers } from '../../json/lossless-json.ts';
import { sealReasoning } from '../../json/sealed-reasoning.ts';
import { createToolId } from '../ids.ts';
import { createBlockReader } from '../messages-blocks.ts';
import { countThinking, createMessagesSource } from '../messages-source.ts';
import { toFinishReason, toIncompleteReason, toResponsesUsage } from '../stop-reasons.ts';
import { createStreamTranslator, keepAliveComment } from '../stream.ts';
import type { RequestEcho } from './request.ts';
import { createResponsesWriter, type ResponsesIdentity, type ResponsesWriter } from './writer.ts';

/** Expects an `answer` from `parseLossless`. Returns null if the answer isn't a messages response. */
export function messagesToResponse(answer: JsonObject, identity: ResponsesIdentity, echo: RequestEcho): JsonObject | null {
  if (!Array.isArray(answer.content)) return null;
  const writer = createResponsesWriter(identity, echo);
  const blocks = createBlocks(writer, identity);
  writer.start(asNonEmptyString(answer.model));
  for (const block of answer.content) blocks.addBlock(asLosslessObject(block));
  const usage = toPlainNumbers(answer.usage);
  writer.finish({
    incomplete: incompleteReason(answer.stop_reason),
    usage: toResponsesUsage(parseMessagesUsage(usage, null), countThinking(usage) ?? 0),
  });
  return writer.response();
}

/**
 * The second argument of `toFinishReason` doesn't matter here. It only selects one of two finish reasons, and both of
 * them mean that the response is complete.
 */
function incompleteReason(stopReason: Parameters<typeof toFinishReason>[0]) {
  return toIncompleteReason(toFinishReason(stopReason, false));
}

export function createMessagesToResponses(identity: ResponsesIdentity, echo: RequestEcho) {
  const writer = createResponsesWriter(identity, echo);
  const blocks = createBlocks(writer, identity);
  const source = createMessagesSource();
  const usage = (): JsonObject | null => toResponsesUsage(source.end().tokens, source.end().thinkingTokens);
  const translator = createStreamTranslator(source, {
    start: ({ event }) => writer.start(asNonEmptyString(asObject(event.message).model)),
    add: blocks.addPart,
    finish: () => blocks.end() + writer.finish({ incomplete: incompleteReason(source.end().stopReason), usage: usage() }),
    fail: (message) => writer.fail(message, usage()),
    keepAlive: keepAliveComment,
  });
  return { ...translator, response: writer.response };
}

function createBlocks(writer: ResponsesWriter, identity: ResponsesIdentity) {
  return createBlockReader({
    text: writer.text,
    thinking: writer.reasoning,
    endThinking: (block) => writer.endReasoning(sealReasoning(block)),
    startTool: (position, { id, name }) => writer.startCall(position, { id: id ?? createToolId('chat', identity.id, position), name }),
    toolInput: writer.callArguments,
    endTool: writer.endCall,
  });
}
