/** Orders the deltas of a chat stream into blocks of the messages dialect: one block is open, later ones wait. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asObject, asString, isObject, parseJson } from '../../core/json/narrow.ts';
import { formatEvent } from '../../core/sse.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';
import { toJsonText } from '../prompt/prompt-extras.ts';
import { createToolId } from './tool-ids.ts';

export interface BlockQueue {
  addText(text: string): void;
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
  readonly tool: Tool | null;
  /** Text or arguments that have not been sent. */
  unsent: string;
  isOpen: boolean;
}

interface Tool {
  id: string | null;
  name: string;
  /** All arguments so far. */
  arguments: string;
}

/** `getResponseId` is called when a tool call has no id. */
export function createBlockQueue(getResponseId: () => string): BlockQueue {
  const queue: Block[] = [];
  const tools = new Map<unknown, Block & { readonly tool: Tool }>();
  let lastKey: unknown = null;
  let blockCount = 0;
  let openedTools = 0;

  const open = ({ tool }: Block): string => {
    const block = tool
      ? { type: 'tool_use', id: tool.id ?? createToolId('messages', getResponseId(), openedTools), name: tool.name, input: {} }
      : { type: 'text', text: '' };
    if (tool) openedTools += 1;
    blockCount += 1;
    return blockEvent('content_block_start', { content_block: block });
  };

  const send = (block: Block): string => {
    const { tool, unsent } = block;
    block.unsent = '';
    if (unsent === '') return '';
    const delta = tool ? { type: 'input_json_delta', partial_json: unsent } : { type: 'text_delta', text: unsent };
    return blockEvent('content_block_delta', { delta });
  };

  const blockEvent = (type: string, members: JsonObject): string => formatEvent(type, { type, index: blockCount - 1, ...members });

  const drain = (isEnd: boolean): string => {
    let events = '';
    for (let block = queue[0]; block; block = queue[0]) {
      // A tool block cannot be opened before its name has arrived.
      if (!block.isOpen && block.tool?.name === '' && !isEnd) return events;
      if (!block.isOpen) events += open(block);
      block.isOpen = true;
      events += send(block);
      const hasEnded = isEnd || (queue.length > 1 && (block.tool === null || isCompleteJson(block.tool.arguments)));
      if (!hasEnded) return events;
      events += blockEvent('content_block_stop', {});
      queue.shift();
    }
    return events;
  };

  const startTool = (key: unknown): Block & { readonly tool: Tool } => {
    const block = { tool: { id: null, name: '', arguments: '' }, unsent: '', isOpen: false };
    tools.set(key, block);
    queue.push(block);
    return block;
  };

  return {
    addText(text) {
      if (text === '') return;
      const last = queue.at(-1);
      if (last?.tool === null) last.unsent += text;
      else queue.push({ tool: null, unsent: text, isOpen: false });
    },
    addToolDelta({ index, id, function: fn }) {
      // Vendors that omit the index send complete calls, each with its id, or continue the last one.
      const key = index ?? asNonEmptyString(id) ?? lastKey;
      lastKey = key;
      const block = tools.get(key) ?? startTool(key);
      const { name, arguments: more } = asObject(fn);
      block.tool.id ??= asNonEmptyString(id);
      if (block.tool.name === '') block.tool.name = asString(name) ?? '';
      const piece = isObject(more) ? toJsonText(more) : (asString(more) ?? '');
      block.tool.arguments += piece;
      block.unsent += piece;
    },
    drainReady: () => drain(false),
    drainAll: () => drain(true),
    toolCount: () => tools.size,
  };
}

/** Whether arguments are a JSON object, which no further delta can extend. */
function isCompleteJson(text: string): boolean {
  return text.trimEnd().endsWith('}') && isObject(parseJson(text));
}
