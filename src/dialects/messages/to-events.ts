/**
 * Converts a JSON messages response into the events that the vendor would have sent if the caller had asked for a
 * stream.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { formatEvent } from '../../core/sse.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from '../json/lossless-json.ts';
import { expectArray, expectString, splitText } from '../json/strict-json.ts';

/** Takes a response that was parsed by `parseLossless`. Throws UntranslatableError if it can't be converted. */
export function toMessagesEvents(answer: unknown): string[] {
  if (!isLosslessObject(answer)) rejectUntranslatable('the response must be an object');
  const { content, stop_reason: stopReason, stop_sequence: stopSequence = null, usage } = answer;
  // Clients read the token counts from the first and the last event.
  if (!isLosslessObject(usage)) rejectUntranslatable('the response must contain usage');
  if (typeof stopReason !== 'string') rejectUntranslatable('the response must have a stop reason');
  const ends = { content: [], stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 0 } };
  return [
    event('message_start', { message: { ...answer, ...ends } }),
    ...expectArray(content, 'content').flatMap((block, index) => [...blockEvents(block, index)]),
    event('message_delta', { delta: { stop_reason: stopReason, stop_sequence: stopSequence }, usage }),
    event('message_stop', {}),
  ];
}

function* blockEvents(block: unknown, index: number): Iterable<string> {
  if (!isLosslessObject(block)) rejectUntranslatable('content: a block must be an object');
  const { start, deltas } = splitBlock(block);
  yield event('content_block_start', { index, content_block: start });
  for (const delta of deltas) yield event('content_block_delta', { index, delta });
  yield event('content_block_stop', { index });
}

/**
 * Splits a block into its start event and deltas. If there are no deltas for a type of block, the start event contains
 * the whole block.
 */
function splitBlock(block: JsonObject): { start: JsonObject; deltas: JsonObject[] } {
  switch (block.type) {
    case 'text': {
      const citations = expectArray(block.citations, 'citations');
      const texts = [...splitText(expectString(block.text, 'text'))];
      return {
        start: { ...block, text: '', ...(citations.length > 0 ? { citations: [] } : {}) },
        deltas: [
          ...texts.map((text) => ({ type: 'text_delta', text })),
          ...citations.map((citation) => ({ type: 'citations_delta', citation })),
        ],
      };
    }
    case 'thinking': {
      const thoughts = [...splitText(expectString(block.thinking, 'thinking'))];
      const signature = expectString(block.signature, 'signature');
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
      if (!isLosslessObject(block.input)) rejectUntranslatable('content: the input of a tool call must be an object');
      const pieces = [...splitText(JSON.stringify(block.input))];
      return { start: { ...block, input: {} }, deltas: pieces.map((json) => ({ type: 'input_json_delta', partial_json: json })) };
    }
    default:
      return { start: block, deltas: [] };
  }
}

function event(type: string, members: JsonObject): string {
  return formatEvent(type, { type, ...members });
}
