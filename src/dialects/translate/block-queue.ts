/** Orders the deltas of a chat stream into blocks of the messages dialect: one block is open, later ones wait. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asObject, asString, isObject, parseJson } from '../../core/json/narrow.ts';
import { formatEvent } from '../../core/sse.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';
import { toJsonText } from '../prompt/prompt-extras.ts';
import type { ReasoningPart } from './chat-reasoning.ts';
import { createToolId } from './tool-ids.ts';

export interface BlockQueue {
  addText(text: string): void;
  addReasoning(part: ReasoningPart): void;
  /** An element of `delta.tool_calls`. */
  addToolDelta(delta: JsonObject): void;
  /** Events that can be sent now. */
  drainReady(): string;
  /** Events of all remaining blocks; closes the last one. Call when the response is complete. */
  drainAll(): string;
  /** Tool calls so far. */
  toolCount(): number;
}

interface Block {
  readonly content: { readonly kind: 'text' } | Thinking | { readonly kind: 'encrypted'; readonly data: string } | Tool;
  /** Text or arguments that have not been sent. */
  unsent: string;
  isOpen: boolean;
}

interface Thinking {
  readonly kind: 'thinking';
  /** All text so far, when it was streamed without its signature; a signed entry repeats it. */
  streamed: string;
  /** Ends the block. */
  signature: string;
}

interface Tool {
  readonly kind: 'tool';
  id: string | null;
  name: string;
  /** All arguments so far. */
  arguments: string;
}

/** `getResponseId` is called when a tool call has no id. */
export function createBlockQueue(getResponseId: () => string): BlockQueue {
  const queue: Block[] = [];
  const tools = new Map<unknown, Block & { readonly content: Tool }>();
  let lastKey: unknown = null;
  let blockCount = 0;
  let openedTools = 0;

  const startOf = (content: Block['content']): JsonObject => {
    switch (content.kind) {
      case 'text':
        return { type: 'text', text: '' };
      case 'thinking':
        return { type: 'thinking', thinking: '', signature: '' };
      case 'encrypted':
        return { type: 'redacted_thinking', data: content.data };
      case 'tool':
        openedTools += 1;
        return {
          type: 'tool_use',
          id: content.id ?? createToolId('messages', getResponseId(), openedTools - 1),
          name: content.name,
          input: {},
        };
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
    for (let block = queue[0]; block; block = queue[0]) {
      // A tool block cannot be opened before its name has arrived.
      if (!block.isOpen && block.content.kind === 'tool' && block.content.name === '' && !isEnd) return events;
      if (!block.isOpen) events += open(block);
      block.isOpen = true;
      events += send(block);
      if (!isEnd && !hasEnded(block.content, queue.length > 1)) return events;
      events += close(block);
      queue.shift();
    }
    return events;
  };

  const startTool = (key: unknown): Block & { readonly content: Tool } => {
    const block = { content: { kind: 'tool' as const, id: null, name: '', arguments: '' }, unsent: '', isOpen: false };
    tools.set(key, block);
    queue.push(block);
    return block;
  };

  return {
    addText(text) {
      if (text === '') return;
      const last = queue.at(-1);
      if (last?.content.kind === 'text') last.unsent += text;
      else queue.push({ content: { kind: 'text' }, unsent: text, isOpen: false });
    },
    addReasoning(part) {
      if (part.kind === 'encrypted') {
        queue.push({ content: part, unsent: '', isOpen: false });
        return;
      }
      const { text, signature, isWhole } = part;
      if (text === '' && signature === '') return;
      const last = queue.at(-1);
      if (last?.content.kind !== 'thinking' || last.content.signature !== '') {
        queue.push({ content: { kind: 'thinking', streamed: isWhole ? '' : text, signature }, unsent: text, isOpen: false });
        return;
      }
      const { content } = last;
      if (!isWhole || text !== content.streamed) last.unsent += text;
      content.streamed = isWhole ? '' : content.streamed + text;
      content.signature = signature;
    },
    addToolDelta({ index, id, function: fn }) {
      // Vendors that omit the index send complete calls, each with its id, or continue the last one.
      const key = index ?? asNonEmptyString(id) ?? lastKey;
      lastKey = key;
      const { name, arguments: more } = asObject(fn);
      const known = tools.get(key);
      const block = known === undefined || isNextCall(known.content, id, name) ? startTool(key) : known;
      block.content.id ??= asNonEmptyString(id);
      if (block.content.name === '') block.content.name = asString(name) ?? '';
      const piece = isObject(more) ? toJsonText(more) : (asString(more) ?? '');
      block.content.arguments += piece;
      block.unsent += piece;
    },
    drainReady: () => drain(false),
    drainAll: () => drain(true),
    toolCount: () => tools.size,
  };
}

function deltaOf(kind: Block['content']['kind'], unsent: string): JsonObject {
  switch (kind) {
    case 'tool':
      return { type: 'input_json_delta', partial_json: unsent };
    case 'thinking':
      return { type: 'thinking_delta', thinking: unsent };
    default:
      return { type: 'text_delta', text: unsent };
  }
}

/** Whether nothing can be added to the block, or another one `isWaiting` and what was added is complete. */
function hasEnded(content: Block['content'], isWaiting: boolean): boolean {
  switch (content.kind) {
    case 'encrypted':
      return true;
    case 'thinking':
      return isWaiting || content.signature !== '';
    case 'text':
      return isWaiting;
    case 'tool':
      return isWaiting && isCompleteJson(content.arguments);
  }
}

/** Whether a delta with the index of a complete call begins another one: some vendors give all calls of a response the same index. */
export function isNextCall(call: { readonly id: string | null; readonly arguments: string }, id: unknown, name: unknown): boolean {
  const isOther = call.id !== null && asNonEmptyString(id) !== null && id !== call.id;
  return isOther && asNonEmptyString(name) !== null && isCompleteJson(call.arguments);
}

/** Whether arguments are a JSON object, which no further delta can extend. */
function isCompleteJson(text: string): boolean {
  return text.trimEnd().endsWith('}') && isObject(parseJson(text));
}
