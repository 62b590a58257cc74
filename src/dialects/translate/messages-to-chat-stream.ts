/** Translates the stream of a messages vendor for a chat caller. Pure. */

import { asObject, asString, isObject, type JsonObject, parseJson } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';
import { formatEvent } from '../../core/sse.ts';
import { parseMessagesUsage } from '../contract/token-usage.ts';
import { asNonEmptyString, asLosslessObject as objectOfLossless } from '../json/lossless-json.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { type ReasoningPart, readThinkingBlock, toReasoningDetail } from './chat-reasoning.ts';
import { jsonAnswerToolName } from './json-answer-tool.ts';
import { toResponseId } from './response-ids.ts';
import { toChatUsage, toFinishReason } from './stop-reasons.ts';
import type { StreamState, StreamTranslator } from './stream.ts';
import { createToolId, type ResponseIdentity } from './tool-ids.ts';

/** A tool block that has not been closed. */
interface OpenTool {
  /** Index among the tool calls of the response. Null when its input is the text of the response. */
  readonly position: number | null;
  /** Input from the start of the block. Vendors send either this complete, or empty with the input in deltas. */
  readonly input: string;
  hasDeltas: boolean;
}

/** A thinking block that has not been closed. */
interface OpenThinking {
  text: string;
  signature: string;
}

/** Sent while there is no content, so that no proxy considers the connection idle. */
const keepAlive = ': keep-alive\n\n';

export function createStreamToChat(identity: ResponseIdentity & { readonly createdSeconds: number }): StreamTranslator {
  let { id, model } = identity;
  let begun = false;
  let ended: StreamState['ended'] = null;
  let problem: string | null = null;
  let tokens: Tokens | null = null;
  let stopReason: unknown = null;
  let toolCount = 0;
  let usageEvent: string | undefined;
  let detailCount = 0;
  const openTools = new Map<unknown, OpenTool>();
  const openThinking = new Map<unknown, OpenThinking>();

  const headMembers = (): JsonObject => ({ id, object: 'chat.completion.chunk', created: identity.createdSeconds, model });
  /** JSON of the members that all chunks share, without its closing brace: serialized once, not for each delta. */
  let head = '';
  const deltaChunk = (delta: JsonObject, finishReason: string | null = null): string =>
    `data: ${head},"choices":[{"index":0,"delta":${JSON.stringify(delta)},"logprobs":null,"finish_reason":${JSON.stringify(finishReason)}}]}\n\n`;
  const textChunk = (text: string | null): string => (text ? deltaChunk({ content: text }) : '');

  const startMessage = (message: JsonObject): string => {
    if (begun) return '';
    begun = true;
    id = toResponseId('chat', asNonEmptyString(message.id) ?? id);
    model = asNonEmptyString(message.model) ?? model;
    head = JSON.stringify(headMembers()).slice(0, -1);
    return deltaChunk({ role: 'assistant', content: '' });
  };

  const startBlock = (event: JsonObject, data: string): string => {
    const block = asObject(event.content_block);
    if (block.type === 'text') return textChunk(asString(block.text));
    if (block.type === 'redacted_thinking') return readThinkingBlock(block).map(detailChunk).join('');
    if (block.type === 'thinking') {
      openThinking.set(event.index, { text: '', signature: asString(block.signature) ?? '' });
      return continueThinking(event.index, block.thinking);
    }
    if (block.type !== 'tool_use') return '';
    // Only here does the vendor send an object instead of text, so only here numbers must keep their digits.
    const input = JSON.stringify(objectOfLossless(objectOfLossless(objectOfLossless(parseLossless(data)).content_block).input));
    const isJsonAnswer = block.name === jsonAnswerToolName;
    const position = isJsonAnswer ? null : toolCount;
    const closed = closeTool(event.index);
    openTools.set(event.index, { position, input, hasDeltas: false });
    if (position === null) return closed;
    toolCount += 1;
    const fn = { name: asString(block.name) ?? '', arguments: '' };
    const call = { index: position, id: asNonEmptyString(block.id) ?? createToolId('chat', id, position), type: 'function', function: fn };
    return closed + deltaChunk({ tool_calls: [call] });
  };

  const inputChunk = ({ position }: OpenTool, text: string): string =>
    position === null ? textChunk(text) : deltaChunk({ tool_calls: [{ index: position, function: { arguments: text } }] });

  const detailChunk = (part: ReasoningPart): string => {
    detailCount += 1;
    return deltaChunk({ reasoning_details: [toReasoningDetail(part, detailCount - 1)] });
  };

  const continueThinking = (index: unknown, more: unknown): string => {
    const text = asString(more);
    const thinking = openThinking.get(index);
    if (!text || !thinking) return '';
    thinking.text += text;
    return deltaChunk({ reasoning_content: text });
  };

  /** The signature, with the whole text that it signs. */
  const closeThinking = (index: unknown): string => {
    const thinking = openThinking.get(index);
    openThinking.delete(index);
    return thinking && thinking.signature !== '' ? detailChunk({ kind: 'text', ...thinking, isWhole: true }) : '';
  };

  const continueBlock = (index: unknown, delta: JsonObject): string => {
    if (delta.type === 'text_delta') return textChunk(asString(delta.text));
    if (delta.type === 'thinking_delta') return continueThinking(index, delta.thinking);
    if (delta.type === 'signature_delta') {
      const thinking = openThinking.get(index);
      if (thinking) thinking.signature += asString(delta.signature) ?? '';
      return '';
    }
    const tool = openTools.get(index);
    const text = asString(delta.partial_json);
    if (delta.type !== 'input_json_delta' || !tool || !text) return '';
    tool.hasDeltas = true;
    return inputChunk(tool, text);
  };

  const closeTool = (index: unknown): string => {
    const tool = openTools.get(index);
    openTools.delete(index);
    return tool && !tool.hasDeltas ? inputChunk(tool, tool.input) : '';
  };

  const finish = (): string => {
    ended = 'whole';
    const rest = [...openThinking.keys()].map(closeThinking).join('') + [...openTools.keys()].map(closeTool).join('');
    if (tokens !== null) usageEvent = formatEvent(null, { ...headMembers(), choices: [], usage: toChatUsage(tokens) });
    return `${rest}${deltaChunk({}, toFinishReason(stopReason, toolCount > 0))}${usageEvent ?? ''}data: [DONE]\n\n`;
  };

  const translate = (event: JsonObject, data: string): string => {
    switch (event.type) {
      case 'message_start': {
        const message = asObject(event.message);
        tokens = parseMessagesUsage(message.usage, tokens);
        return startMessage(message);
      }
      case 'content_block_start':
        return startMessage({}) + startBlock(event, data);
      case 'content_block_delta':
        return startMessage({}) + continueBlock(event.index, asObject(event.delta));
      case 'content_block_stop':
        return startMessage({}) + closeThinking(event.index) + closeTool(event.index);
      case 'message_delta':
        stopReason = asObject(event.delta).stop_reason ?? stopReason;
        tokens = parseMessagesUsage(event.usage, tokens);
        return startMessage({});
      case 'message_stop':
        return begun ? finish() : '';
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
    state: () => ({ begun, ended, problem, usageEvent }),
  };
}
