/** Tells a plain messages answer as the events that its vendor would have streamed. Pure. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { formatEvent } from '../../core/sse.ts';
import { refuse } from '../contract/untranslatable.ts';
import { isObject } from '../json/lossless-json.ts';
import { listOrNone, piecesOf, textOrNone } from '../json/strict-json.ts';

/** `answer` is parsed by `parseLossless`. Throws Untranslatable. */
export function replayMessages(answer: unknown): string[] {
  if (!isObject(answer)) refuse('the answer is no object');
  const { content, stop_reason: stopReason, stop_sequence: stopSequence = null, usage } = answer;
  // Events of this dialect tell counts, and clients read them there.
  if (!isObject(usage)) refuse('the answer has no usage');
  if (typeof stopReason !== 'string') refuse('the answer has no end');
  const ends = { content: [], stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 0 } };
  return [
    event('message_start', { message: { ...answer, ...ends } }),
    ...listOrNone(content, 'content').flatMap((block, index) => [...blockEvents(block, index)]),
    event('message_delta', { delta: { stop_reason: stopReason, stop_sequence: stopSequence }, usage }),
    event('message_stop', {}),
  ];
}

function* blockEvents(block: unknown, index: number): Iterable<string> {
  if (!isObject(block)) refuse('a block is no object');
  const { start, deltas } = piecesOfBlock(block);
  yield event('content_block_start', { index, content_block: start });
  for (const delta of deltas) yield event('content_block_delta', { index, delta });
  yield event('content_block_stop', { index });
}

/** Blocks of a type that has no pieces come whole with their start. */
function piecesOfBlock(block: JsonObject): { start: JsonObject; deltas: JsonObject[] } {
  switch (block.type) {
    case 'text': {
      const citations = listOrNone(block.citations, 'citations');
      const texts = [...piecesOf(textOrNone(block.text, 'text'))];
      return {
        start: { ...block, text: '', ...(citations.length > 0 ? { citations: [] } : {}) },
        deltas: [
          ...texts.map((text) => ({ type: 'text_delta', text })),
          ...citations.map((citation) => ({ type: 'citations_delta', citation })),
        ],
      };
    }
    case 'thinking': {
      const thoughts = [...piecesOf(textOrNone(block.thinking, 'thinking'))];
      const signature = textOrNone(block.signature, 'signature');
      return {
        start: { ...block, thinking: '', signature: '' },
        deltas: [
          ...thoughts.map((thinking) => ({ type: 'thinking_delta', thinking })),
          ...(signature === '' ? [] : [{ type: 'signature_delta', signature }]),
        ],
      };
    }
    case 'tool_use':
    case 'server_tool_use':
    case 'mcp_tool_use': {
      if (!isObject(block.input)) refuse('the input of a tool is no object');
      const pieces = [...piecesOf(JSON.stringify(block.input))];
      return { start: { ...block, input: {} }, deltas: pieces.map((json) => ({ type: 'input_json_delta', partial_json: json })) };
    }
    default:
      return { start: block, deltas: [] };
  }
}

function event(type: string, members: JsonObject): string {
  return formatEvent(type, { type, ...members });
}
