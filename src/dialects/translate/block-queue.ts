/**
 * Sorts the deltas of a chat stream into blocks of the messages dialect. Only one block can be open at a time, so later
 * blocks have to wait.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { formatEvent } from '../../core/sse.ts';
import type { StreamedCall, ToolCallDelta } from '../chat/tool-calls.ts';
import type { ReasoningPart } from './chat-reasoning.ts';
import { createToolId } from './ids.ts';

type Content =
  | { readonly kind: 'text' }
  | Thinking
  | { readonly kind: 'encrypted'; readonly data: string }
  | { readonly kind: 'tool'; readonly call: StreamedCall };

interface Thinking {
  readonly kind: 'thinking';
  /**
   * The text that has been streamed so far without a signature. If the vendor then sends a complete entry, we compare
   * the two, because the entry may repeat the same text.
   */
  streamed: string;
  /** Empty until the signature arrives, which completes the block. */
  signature: string;
}

interface Block {
  readonly content: Content;
  unsent: string;
  isOpen: boolean;
  next: Block | null;
}

/** Tool calls without an id get one that's derived from the response's id, which `getResponseId` returns. */
export function createBlockQueue(getResponseId: () => string) {
  /** Blocks that haven't ended yet form a linked list from `first` to `last`. */
  let first: Block | null = null;
  let last: Block | null = null;
  const tools = new Map<StreamedCall, Block>();
  let blockCount = 0;

  const append = (content: Content, unsent: string): Block => {
    const block: Block = { content, unsent, isOpen: false, next: null };
    if (last === null) first = block;
    else last.next = block;
    last = block;
    return block;
  };

  const startOf = (content: Content): JsonObject => {
    switch (content.kind) {
      case 'text':
        return { type: 'text', text: '' };
      case 'thinking':
        return { type: 'thinking', thinking: '', signature: '' };
      case 'encrypted':
        return { type: 'redacted_thinking', data: content.data };
      case 'tool': {
        const { id, name, position } = content.call;
        return { type: 'tool_use', id: id ?? createToolId('messages', getResponseId(), position), name, input: {} };
      }
    }
  };

  const open = ({ content }: Block): string => {
    blockCount += 1;
    return blockEvent('content_block_start', { content_block: startOf(content) });
  };

  const send = (block: Block): string => {
    const { content, unsent } = block;
    block.unsent = '';
    return unsent === '' ? '' : blockEvent('content_block_delta', { delta: deltaOf(content.kind, unsent) });
  };

  const close = ({ content }: Block): string => {
    const signature = content.kind === 'thinking' ? content.signature : '';
    const signed = signature === '' ? '' : blockEvent('content_block_delta', { delta: { type: 'signature_delta', signature } });
    return signed + blockEvent('content_block_stop', {});
  };

  const blockEvent = (type: string, members: JsonObject): string => formatEvent(type, { type, index: blockCount - 1, ...members });

  const drain = (isEnd: boolean): string => {
    let events = '';
    for (let block = first; block !== null; block = first) {
      // A tool block can't be opened before its name has arrived.
      if (!block.isOpen && block.content.kind === 'tool' && block.content.call.name === '' && !isEnd) return events;
      if (!block.isOpen) events += open(block);
      block.isOpen = true;
      events += send(block);
      if (!isEnd && !hasEnded(block)) return events;
      events += close(block);
      first = block.next;
      if (first === null) last = null;
    }
    return events;
  };

  return {
    addText(text: string): void {
      if (text === '') return;
      if (last?.content.kind === 'text') last.unsent += text;
      else append({ kind: 'text' }, text);
    },
    addReasoning(part: ReasoningPart): void {
      if (part.kind === 'encrypted') {
        append(part, '');
        return;
      }
      const { text, signature, isWhole } = part;
      if (text === '' && signature === '') return;
      if (last?.content.kind !== 'thinking' || last.content.signature !== '') {
        append({ kind: 'thinking', streamed: isWhole ? '' : text, signature }, text);
        return;
      }
      const { content } = last;
      if (!isWhole || text !== content.streamed) last.unsent += text;
      content.streamed = isWhole ? '' : content.streamed + text;
      content.signature = signature;
    },
    addCall({ call, argumentText }: ToolCallDelta): void {
      const known = tools.get(call);
      if (known) known.unsent += argumentText;
      else tools.set(call, append({ kind: 'tool', call }, argumentText));
    },
    drainReady: () => drain(false),
    /** Closes all remaining blocks and returns their events. Call this once the response is complete. */
    drainAll: () => drain(true),
  };
}

function deltaOf(kind: Content['kind'], unsent: string): JsonObject {
  switch (kind) {
    case 'tool':
      return { type: 'input_json_delta', partial_json: unsent };
    case 'thinking':
      return { type: 'thinking_delta', thinking: unsent };
    default:
      return { type: 'text_delta', text: unsent };
  }
}

/**
 * Checks whether the block can be closed. Encrypted blocks are complete from the start, and thinking blocks as soon as
 * they have a signature. Otherwise, a block stays open until another block is waiting, and a tool call also until its
 * arguments are complete.
 */
function hasEnded({ content, next }: Block): boolean {
  switch (content.kind) {
    case 'encrypted':
      return true;
    case 'thinking':
      return next !== null || content.signature !== '';
    case 'text':
      return next !== null;
    case 'tool':
      return next !== null && content.call.isComplete();
  }
}
