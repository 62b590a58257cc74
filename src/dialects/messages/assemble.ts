/** Assembles the events of a streamed messages response into the equivalent JSON response. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject, omitNullish } from '../json/lossless-json.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { expectArray, expectKnownObject, expectString } from '../json/strict-json.ts';

const startMembers = new Set(['type', 'message']);
const blockStartMembers = new Set(['type', 'index', 'content_block']);
const blockDeltaMembers = new Set(['type', 'index', 'delta']);
const deltaMembers = new Set(['type', 'text', 'partial_json', 'thinking', 'signature', 'citation']);
const endMembers = new Set(['type', 'delta', 'usage', 'context_management']);

interface OpenBlock {
  block: JsonObject;
  inputText: string;
}

/** Takes the data of the events, parsed by `parseLossless`. Throws UntranslatableError if they can't be assembled. */
export function assembleMessages(events: readonly unknown[]): JsonObject {
  let message: JsonObject | null = null;
  let isEnded = false;
  const blocks: OpenBlock[] = [];
  for (const event of events) {
    if (!isLosslessObject(event)) rejectUntranslatable('an event must be an object');
    switch (event.type) {
      case 'ping':
        break;
      case 'message_start':
        if (message !== null) rejectUntranslatable('message_start was sent more than once');
        message = parseStart(event);
        break;
      case 'content_block_start':
        blocks.push(openBlock(event, blocks.length));
        break;
      case 'content_block_delta':
        addDelta(blocks, event);
        break;
      case 'content_block_stop':
        break;
      case 'message_delta':
        message = mergeEnd(message ?? rejectUntranslatable('message_start is missing'), event);
        break;
      case 'message_stop':
        isEnded = true;
        break;
      default:
        rejectUntranslatable('an event has an unknown type');
    }
  }
  if (message === null || !isEnded || typeof message.stop_reason !== 'string') rejectUntranslatable('the response is incomplete');
  return { ...message, content: blocks.map(toBlock) };
}

function parseStart(event: JsonObject): JsonObject {
  const { message } = expectKnownObject(event, 'message_start', startMembers);
  if (!isLosslessObject(message) || expectArray(message.content, 'content').length > 0)
    rejectUntranslatable('message_start must not contain any content');
  return message;
}

function openBlock(event: JsonObject, position: number): OpenBlock {
  const { index, content_block: block } = expectKnownObject(event, 'content_block_start', blockStartMembers);
  if (index !== position || !isLosslessObject(block)) rejectUntranslatable('the content blocks are out of order');
  return { block, inputText: '' };
}

function addDelta(blocks: readonly OpenBlock[], event: JsonObject): void {
  const { index, delta } = expectKnownObject(event, 'content_block_delta', blockDeltaMembers);
  const open = typeof index === 'number' ? blocks[index] : undefined;
  if (!open) rejectUntranslatable('a delta does not belong to an open block');
  const { type, text, partial_json: json, thinking, signature, citation } = expectKnownObject(delta, 'a delta', deltaMembers);
  const { block } = open;
  const append = (name: string, more: unknown): void => {
    open.block = { ...block, [name]: expectString(block[name], name) + expectString(more, name) };
  };
  switch (type) {
    case 'text_delta':
      append('text', text);
      break;
    case 'thinking_delta':
      append('thinking', thinking);
      break;
    case 'signature_delta':
      append('signature', signature);
      break;
    case 'citations_delta':
      open.block = { ...block, citations: [...expectArray(block.citations, 'citations'), citation] };
      break;
    case 'input_json_delta':
      open.inputText += expectString(json, 'partial_json');
      break;
    default:
      rejectUntranslatable('a delta has an unknown type');
  }
}

/** Merges a `message_delta` event into the message. The counts in it are cumulative, so they replace earlier ones. */
function mergeEnd(message: JsonObject, event: JsonObject): JsonObject {
  const { delta, usage, ...others } = expectKnownObject(event, 'message_delta', endMembers);
  const { type: _type, ...more } = omitNullish(others);
  const counts = isLosslessObject(usage)
    ? { usage: { ...(isLosslessObject(message.usage) ? message.usage : {}), ...omitNullish(usage) } }
    : {};
  return { ...message, ...more, ...(isLosslessObject(delta) ? delta : {}), ...counts };
}

/** If the stream contained input deltas, they replace the tool's input from the start event. */
function toBlock({ block, inputText }: OpenBlock): JsonObject {
  if (inputText === '') return block;
  const input = parseLossless(inputText);
  return isLosslessObject(input) ? { ...block, input } : rejectUntranslatable('content: the input of a tool call must be an object');
}
