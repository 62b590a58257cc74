/**
 * Reads the content blocks of messages responses, both plain and streamed, and passes them to a writer for the caller's
 * dialect.
 */
import { asObject, asString, type JsonObject } from '../../core/json/narrow.ts';
import { asLosslessObject, asNonEmptyString } from '../json/lossless-json.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { jsonAnswerToolName } from './json-answer-tool.ts';
import type { MessagesPart } from './messages-source.ts';

/** Each function returns events for the caller. `position` is the index of the tool call in the response. */
export interface BlockWriter {
  /** Adds text. If the model was forced to call the JSON tool, this also receives the input of that tool. */
  text(piece: string): string;
  thinking(piece: string): string;
  /** Ends the current block. `block` is the complete thinking or redacted thinking block. */
  endThinking(block: JsonObject): string;
  startTool(position: number, tool: { readonly id: string | null; readonly name: string }): string;
  toolInput(position: number, piece: string): string;
  endTool(position: number): string;
}

type OpenBlock =
  | { readonly kind: 'thinking'; readonly block: JsonObject; thinking: string; signature: string }
  | {
      readonly kind: 'tool';
      /**
       * The index of the tool call among those that the caller sees. Null for the JSON tool, because its input becomes
       * text.
       */
      readonly position: number | null;
      /** Some vendors send the whole input in the start event, while others send it in deltas. */
      readonly input: string;
      hasDeltas: boolean;
    };

export function createBlockReader(writer: BlockWriter) {
  const open = new Map<unknown, OpenBlock>();
  let toolCount = 0;

  const startTool = (index: unknown, { id, name }: JsonObject, input: unknown): string => {
    const position = name === jsonAnswerToolName ? null : toolCount;
    open.set(index, { kind: 'tool', position, input: JSON.stringify(asLosslessObject(input)), hasDeltas: false });
    if (position === null) return '';
    toolCount += 1;
    return writer.startTool(position, { id: asNonEmptyString(id), name: asString(name) ?? '' });
  };

  /**
   * `readInput` returns the input of a tool without rounding large numbers. We only call it for tools, because it may
   * have to parse the event again.
   */
  const start = (index: unknown, block: JsonObject, readInput: () => unknown): string => {
    switch (block.type) {
      case 'text':
        return writer.text(asString(block.text) ?? '');
      case 'thinking': {
        const thinking = asString(block.thinking) ?? '';
        const ended = end(index);
        open.set(index, { kind: 'thinking', block, thinking, signature: asString(block.signature) ?? '' });
        return ended + writer.thinking(thinking);
      }
      case 'redacted_thinking':
        return writer.endThinking(block);
      case 'tool_use':
        return end(index) + startTool(index, block, readInput());
      default:
        return '';
    }
  };

  const input = (position: number | null, piece: string): string =>
    position === null ? writer.text(piece) : writer.toolInput(position, piece);

  const resume = (index: unknown, delta: JsonObject): string => {
    switch (delta.type) {
      case 'text_delta':
        return writer.text(asString(delta.text) ?? '');
      case 'thinking_delta': {
        const thinking = asString(delta.thinking) ?? '';
        const block = open.get(index);
        if (block?.kind === 'thinking') block.thinking += thinking;
        return writer.thinking(thinking);
      }
      case 'signature_delta': {
        const block = open.get(index);
        if (block?.kind === 'thinking') block.signature += asString(delta.signature) ?? '';
        return '';
      }
      case 'input_json_delta': {
        const piece = asString(delta.partial_json) ?? '';
        const block = open.get(index);
        if (block?.kind !== 'tool' || piece === '') return '';
        block.hasDeltas = true;
        return input(block.position, piece);
      }
      default:
        return '';
    }
  };

  const end = (index: unknown): string => {
    const block = open.get(index);
    if (!block) return '';
    open.delete(index);
    if (block.kind === 'thinking') {
      const { thinking, signature } = block;
      return writer.endThinking({ ...block.block, thinking, signature });
    }
    const rest = block.hasDeltas ? '' : input(block.position, block.input);
    return rest + (block.position === null ? '' : writer.endTool(block.position));
  };

  return {
    /** Adds a whole block that was parsed by `parseLossless`. */
    addBlock: (block: JsonObject): string => start(null, block, () => block.input) + end(null),
    addPart({ event, data }: MessagesPart): string {
      switch (event.type) {
        case 'content_block_start':
          return start(event.index, asObject(event.content_block), () => readToolInput(data));
        case 'content_block_delta':
          return resume(event.index, asObject(event.delta));
        case 'content_block_stop':
          return end(event.index);
        default:
          return '';
      }
    },
    end: (): string => [...open.keys()].map(end).join(''),
    toolCount: () => toolCount,
  };
}

/**
 * Parses the start event again, this time without rounding large numbers. We only need this for the input of a tool,
 * because everything else is text.
 */
function readToolInput(data: string): unknown {
  return asLosslessObject(asLosslessObject(parseLossless(data)).content_block).input;
}
