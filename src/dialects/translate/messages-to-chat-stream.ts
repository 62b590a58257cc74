/** The streamed answer of a vendor of messages for a caller of chat (vendor facts 8.3). Pure. */

import { asObject, asString, isObject, type JsonObject, parseJson } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';
import { formatEvent } from '../../core/sse.ts';
import { readMessagesUsage } from '../contract/token-usage.ts';
import { filledText, objectOf as objectOfLossless } from '../json/lossless-json.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { answerToolName } from './json-answer-tool.ts';
import type { AnswerNames } from './response-identity.ts';
import { chatUsageOf, finishReasonOf } from './stop-reasons.ts';
import type { StreamState, StreamTranslator } from './stream.ts';
import { makeToolId } from './tool-ids.ts';

/** A tool block that is not closed yet. */
interface OpenTool {
  /** Place among the tool calls of the answer; null: its input is the answer's text. */
  readonly position: number | null;
  /** Input that came with the block's start. Vendors send it empty and give the input in pieces, or whole. */
  readonly input: string;
  hasPieces: boolean;
}

/** Sent where there is nothing to say for a while, so that nobody on the way takes the connection for dead. */
const keepAlive = ': keep-alive\n\n';

export function createStreamToChat(names: AnswerNames & { readonly createdSeconds: number }): StreamTranslator {
  let { id, model } = names;
  let begun = false;
  let ended: StreamState['ended'] = null;
  let problem: string | null = null;
  let tokens: Tokens | null = null;
  let stopReason: unknown = null;
  let toolCount = 0;
  const openTools = new Map<unknown, OpenTool>();

  const chunk = (choices: readonly JsonObject[], more: JsonObject = {}): string =>
    formatEvent(null, { id, object: 'chat.completion.chunk', created: names.createdSeconds, model, choices, ...more });
  const piece = (delta: JsonObject, finishReason: string | null = null): string =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finishReason }]);
  const textPiece = (text: string | null): string => (text ? piece({ content: text }) : '');

  const begin = (message: JsonObject): string => {
    if (begun) return '';
    begun = true;
    id = filledText(message.id) ?? id;
    model = filledText(message.model) ?? model;
    return piece({ role: 'assistant', content: '' });
  };

  const startBlock = (event: JsonObject, data: string): string => {
    const block = asObject(event.content_block);
    if (block.type === 'text') return textPiece(asString(block.text));
    if (block.type !== 'tool_use') return '';
    // Only here does the vendor send an object instead of text, so only here must its numbers be kept.
    const input = JSON.stringify(objectOfLossless(objectOfLossless(objectOfLossless(parseLossless(data)).content_block).input));
    const isAnswer = block.name === answerToolName;
    const position = isAnswer ? null : toolCount;
    const closed = closeTool(event.index);
    openTools.set(event.index, { position, input, hasPieces: false });
    if (position === null) return closed;
    toolCount += 1;
    const fn = { name: asString(block.name) ?? '', arguments: '' };
    const call = { index: position, id: filledText(block.id) ?? makeToolId('chat', id, position), type: 'function', function: fn };
    return closed + piece({ tool_calls: [call] });
  };

  const inputPiece = ({ position }: OpenTool, text: string): string =>
    position === null ? textPiece(text) : piece({ tool_calls: [{ index: position, function: { arguments: text } }] });

  const continueBlock = (index: unknown, delta: JsonObject): string => {
    if (delta.type === 'text_delta') return textPiece(asString(delta.text));
    if (delta.type === 'thinking_delta') return keepAlive;
    const tool = openTools.get(index);
    const text = asString(delta.partial_json);
    if (delta.type !== 'input_json_delta' || !tool || !text) return '';
    tool.hasPieces = true;
    return inputPiece(tool, text);
  };

  const closeTool = (index: unknown): string => {
    const tool = openTools.get(index);
    openTools.delete(index);
    return tool && !tool.hasPieces ? inputPiece(tool, tool.input) : '';
  };

  const finish = (): string => {
    ended = 'whole';
    const rest = [...openTools.keys()].map(closeTool).join('');
    const usage = tokens === null ? '' : chunk([], { usage: chatUsageOf(tokens) });
    return `${rest}${piece({}, finishReasonOf(stopReason, toolCount > 0))}${usage}data: [DONE]\n\n`;
  };

  const translate = (event: JsonObject, data: string): string => {
    switch (event.type) {
      case 'message_start': {
        const message = asObject(event.message);
        tokens = readMessagesUsage(message.usage, tokens);
        return begin(message);
      }
      case 'content_block_start':
        return begin({}) + startBlock(event, data);
      case 'content_block_delta':
        return begin({}) + continueBlock(event.index, asObject(event.delta));
      case 'content_block_stop':
        return begin({}) + closeTool(event.index);
      case 'message_delta':
        stopReason = asObject(event.delta).stop_reason ?? stopReason;
        tokens = readMessagesUsage(event.usage, tokens);
        return begin({});
      case 'message_stop':
        return begun ? finish() : '';
      case 'ping':
        return begun ? keepAlive : '';
      case 'error':
        ended = 'broken';
        problem = asString(asObject(event.error).message) ?? 'the vendor reported an error';
        return '';
      default:
        return ''; // Unknown events must be ignored (vendor facts 2).
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
  };
}
