/** Translates the JSON response and the stream of a messages vendor for a caller of responses. Pure. */
import { asCount, asObject, asString, isObject, type JsonObject, parseJson } from '../../../core/json/narrow.ts';
import type { Tokens } from '../../../core/pricing.ts';
import type { SseEvent } from '../../../core/sse.ts';
import { parseMessagesUsage } from '../../contract/token-usage.ts';
import { asLosslessObject, asNonEmptyString, toPlainNumbers } from '../../json/lossless-json.ts';
import { parseLossless } from '../../json/parse-lossless.ts';
import { sealReasoning } from '../../json/sealed-reasoning.ts';
import { jsonAnswerToolName } from '../json-answer-tool.ts';
import type { StreamState } from '../stream.ts';
import { createToolId } from '../tool-ids.ts';
import { keepAlive } from './call-items.ts';
import type { RequestEcho } from './request.ts';
import type { ResponsesTranslator } from './translator.ts';
import { toResponsesUsage } from './usage.ts';
import { createResponsesWriter, type IncompleteReason, type ResponsesIdentity } from './writer.ts';

/** Null when `answer` is not a messages response. `answer` comes from `parseLossless`. */
export function messagesToResponse(answer: JsonObject, identity: ResponsesIdentity, echo: RequestEcho): JsonObject | null {
  if (!Array.isArray(answer.content)) return null;
  const writer = createResponsesWriter(identity, echo);
  writer.start(asNonEmptyString(answer.model));
  for (const [index, block] of answer.content.map(asLosslessObject).entries()) {
    switch (block.type) {
      case 'text':
        writer.text(asString(block.text) ?? '');
        break;
      case 'thinking':
        writer.reasoning(asString(block.thinking) ?? '');
        writer.endReasoning(sealReasoning(block));
        break;
      case 'redacted_thinking':
        writer.endReasoning(sealReasoning(block));
        break;
      case 'tool_use': {
        const input = JSON.stringify(block.input ?? {});
        if (block.name === jsonAnswerToolName) writer.text(input);
        else {
          writer.startCall(index, toCall(block, identity, writer.callCount()));
          writer.callArguments(index, input);
          writer.endCall(index);
        }
        break;
      }
    }
  }
  const usage = toPlainNumbers(answer.usage);
  writer.finish({
    incomplete: toIncompleteReason(answer.stop_reason),
    usage: toResponsesUsage(parseMessagesUsage(usage, null), countThinking(usage) ?? 0),
  });
  return writer.response();
}

function toCall(block: JsonObject, { id }: ResponsesIdentity, position: number): { id: string; name: string } {
  return { id: asNonEmptyString(block.id) ?? createToolId('chat', id, position), name: asString(block.name) ?? '' };
}

function toIncompleteReason(stopReason: unknown): IncompleteReason | null {
  switch (stopReason) {
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return 'max_output_tokens';
    case 'refusal':
      return 'content_filter';
    default:
      return null;
  }
}

function countThinking(usage: unknown): number | undefined {
  return asCount(asObject(asObject(usage).output_tokens_details).thinking_tokens);
}

/** A block that has not been closed. */
type OpenBlock =
  | { readonly kind: 'thinking'; thinking: string; signature: string }
  /** Vendors send the input either complete at the start, or in deltas. */
  | { readonly kind: 'tool'; readonly isAnswer: boolean; readonly input: string; hasDeltas: boolean };

export function createMessagesToResponses(identity: ResponsesIdentity, echo: RequestEcho): ResponsesTranslator {
  const writer = createResponsesWriter(identity, echo);
  const blocks = new Map<unknown, OpenBlock>();
  let begun = false;
  let ended: StreamState['ended'] = null;
  let problem: string | null = null;
  let tokens: Tokens | null = null;
  let thinkingTokens = 0;
  let stopReason: unknown = null;

  const start = (message: JsonObject): string => {
    begun = true;
    return writer.start(asNonEmptyString(message.model));
  };

  const readUsage = (usage: unknown): void => {
    tokens = parseMessagesUsage(usage, tokens);
    thinkingTokens = countThinking(usage) ?? thinkingTokens;
  };

  const startBlock = (index: unknown, block: JsonObject, data: string): string => {
    switch (block.type) {
      case 'text':
        return writer.text(asString(block.text) ?? '');
      case 'thinking': {
        const thinking = asString(block.thinking) ?? '';
        blocks.set(index, { kind: 'thinking', thinking, signature: asString(block.signature) ?? '' });
        return writer.reasoning(thinking);
      }
      case 'redacted_thinking':
        return writer.endReasoning(sealReasoning(block));
      case 'tool_use': {
        const isAnswer = block.name === jsonAnswerToolName;
        // Only here does the vendor send an object instead of text, so only here numbers must keep their digits.
        const input = JSON.stringify(asLosslessObject(asLosslessObject(asLosslessObject(parseLossless(data)).content_block).input));
        blocks.set(index, { kind: 'tool', isAnswer, input, hasDeltas: false });
        return isAnswer ? '' : writer.startCall(index, toCall(block, identity, writer.callCount()));
      }
      default:
        return '';
    }
  };

  const addInput = (index: unknown, isAnswer: boolean, text: string): string =>
    isAnswer ? writer.text(text) : writer.callArguments(index, text);

  const continueBlock = (index: unknown, delta: JsonObject): string => {
    const block = blocks.get(index);
    switch (delta.type) {
      case 'text_delta':
        return writer.text(asString(delta.text) ?? '');
      case 'thinking_delta': {
        const thinking = asString(delta.thinking) ?? '';
        if (block?.kind === 'thinking') block.thinking += thinking;
        return writer.reasoning(thinking);
      }
      case 'signature_delta':
        if (block?.kind === 'thinking') block.signature += asString(delta.signature) ?? '';
        return '';
      case 'input_json_delta': {
        const text = asString(delta.partial_json) ?? '';
        if (block?.kind !== 'tool' || text === '') return '';
        block.hasDeltas = true;
        return addInput(index, block.isAnswer, text);
      }
      default:
        return '';
    }
  };

  const endBlock = (index: unknown): string => {
    const block = blocks.get(index);
    blocks.delete(index);
    if (!block) return '';
    if (block.kind === 'thinking') {
      const { thinking, signature } = block;
      return writer.endReasoning(sealReasoning({ type: 'thinking', thinking, signature }));
    }
    const input = block.hasDeltas ? '' : addInput(index, block.isAnswer, block.input);
    return input + (block.isAnswer ? '' : writer.endCall(index));
  };

  const usage = (): JsonObject | null => toResponsesUsage(tokens, thinkingTokens);

  const translate = (event: JsonObject, data: string): string => {
    switch (event.type) {
      case 'message_start': {
        const message = asObject(event.message);
        readUsage(message.usage);
        return start(message);
      }
      case 'content_block_start':
        return start({}) + startBlock(event.index, asObject(event.content_block), data);
      case 'content_block_delta':
        return start({}) + continueBlock(event.index, asObject(event.delta));
      case 'content_block_stop':
        return start({}) + endBlock(event.index);
      case 'message_delta':
        stopReason = asObject(event.delta).stop_reason ?? stopReason;
        readUsage(event.usage);
        return start({});
      case 'message_stop': {
        if (!begun) return '';
        ended = 'whole';
        const rest = [...blocks.keys()].map(endBlock).join('');
        return rest + writer.finish({ incomplete: toIncompleteReason(stopReason), usage: usage() });
      }
      case 'ping':
        return begun ? keepAlive : '';
      case 'error':
        ended = 'broken';
        problem = asString(asObject(event.error).message) ?? 'the vendor reported an error';
        return '';
      default:
        return ''; // Anthropic asks clients to ignore unknown events (docs/vendors.md).
    }
  };

  return {
    push({ data }: SseEvent) {
      if (ended !== null || data === '') return '';
      const event = parseJson(data);
      return isObject(event) ? translate(event, data) : '';
    },
    end() {
      if (ended === null) {
        ended = 'broken';
        problem = 'the vendor ended the stream early';
      }
      return '';
    },
    state: () => ({ begun, ended, problem }),
    fail: (message) => writer.fail(message, usage()),
    response: writer.response,
  };
}
