/** System and messages of a messages request as chat messages. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asString } from '../../core/json/narrow.ts';
import { refuse } from '../contract/untranslatable.ts';
import { filledText, isObject } from '../json/lossless-json.ts';
import { documentPartsOf, imagePartOf } from './media.ts';
import { createToolIds, type ToolIds } from './tool-ids.ts';

/** One system message first, then the conversation. Thinking and cache marks are left out: they are bound to their vendor. */
export function readMessagesTurns(body: JsonObject): JsonObject[] {
  if (!Array.isArray(body.messages)) return refuse('messages is no list');
  const messages: readonly unknown[] = body.messages;
  const ids = createToolIds('chat');
  const system = systemText(body.system);
  const turns = messages.flatMap((message) => {
    if (!isObject(message)) return refuse('a message is no object');
    switch (message.role) {
      case 'system':
        return [{ role: 'system', content: systemText(message.content) }];
      case 'user':
        return readUser(message.content, ids);
      case 'assistant':
        return [readAssistant(message.content, ids)];
      default:
        return refuse('a message has a role that the chat dialect does not know');
    }
  });
  if (turns.at(-1)?.role === 'assistant') refuse('an answer that is begun cannot be expressed in the chat dialect');
  return [...(system === '' ? [] : [{ role: 'system', content: system }]), ...turns];
}

/** As one text: not every vendor of chat takes parts here. */
function systemText(content: unknown): string {
  return blocksOf(content)
    .map((block) => (block.type === 'text' ? asString(block.text) : null) ?? refuse('system holds something else than text'))
    .join('\n\n');
}

/** Results of tools become messages of their own, in front of what the user says. */
function readUser(content: unknown, ids: ToolIds): JsonObject[] {
  const blocks = blocksOf(content);
  const results = blocks.filter((block) => block.type === 'tool_result').map((block) => readToolResult(block, ids));
  const said = blocks.filter((block) => block.type !== 'tool_result').flatMap(readPart);
  const parts = [...results.flatMap(({ attached }) => attached), ...said];
  const messages = results.map(({ message }) => message);
  return parts.length === 0 && messages.length > 0 ? messages : [...messages, { role: 'user', content: contentOf(parts) }];
}

/** A tool message holds only text: images and files of a result follow in the user's message. */
function readToolResult(block: JsonObject, ids: ToolIds): { message: JsonObject; attached: readonly JsonObject[] } {
  const id = ids.ofResult(block.tool_use_id);
  const parts = blocksOf(block.content).flatMap(readPart);
  const texts = parts.filter((part) => part.type === 'text');
  const others = parts.filter((part) => part.type !== 'text');
  const noted = block.is_error === true ? noteError(texts) : texts;
  const attached = others.length === 0 ? [] : [{ type: 'text', text: `Attached to the result of tool call ${id}:` }, ...others];
  return { message: { role: 'tool', tool_call_id: id, content: contentOf(noted) }, attached };
}

/** Chat has no member that says so. */
function noteError([first, ...rest]: readonly JsonObject[]): JsonObject[] {
  return [{ type: 'text', text: `Error: ${asString(first?.text) ?? ''}`.trimEnd() }, ...rest];
}

function readAssistant(content: unknown, ids: ToolIds): JsonObject {
  let text = '';
  const toolCalls: JsonObject[] = [];
  for (const block of blocksOf(content)) {
    switch (block.type) {
      case 'text':
        text += asString(block.text) ?? refuse('a text block has no text');
        break;
      case 'tool_use':
        toolCalls.push(readToolUse(block, ids));
        break;
      case 'thinking':
      case 'redacted_thinking':
        break;
      default:
        refuse('a block of the assistant cannot be expressed in the chat dialect');
    }
  }
  return toolCalls.length === 0
    ? { role: 'assistant', content: text }
    : { role: 'assistant', content: text === '' ? null : text, tool_calls: toolCalls };
}

function readToolUse({ id, name, input }: JsonObject, ids: ToolIds): JsonObject {
  const known = filledText(name) ?? refuse('a tool call has no name');
  if (!isObject(input ?? {})) refuse('the input of a tool call is no object');
  return { id: ids.ofCall(id), type: 'function', function: { name: known, arguments: JSON.stringify(input ?? {}) } };
}

function readPart(block: JsonObject): readonly JsonObject[] {
  switch (block.type) {
    case 'text': {
      const text = asString(block.text) ?? refuse('a text block has no text');
      return text === '' ? [] : [{ type: 'text', text }];
    }
    case 'image':
      return [imagePartOf(block)];
    case 'document':
      return documentPartsOf(block, (content) => blocksOf(content).flatMap(readPart));
    default:
      return refuse('a block of a message cannot be expressed in the chat dialect');
  }
}

function blocksOf(content: unknown): readonly JsonObject[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) return refuse('the content of a message is neither text nor a list of blocks');
  return content.map((block: unknown) => (isObject(block) ? block : refuse('a block of a message is no object')));
}

/** A single text as it is: every vendor of chat takes that, some take nothing else. */
function contentOf(parts: readonly JsonObject[]): unknown {
  const [first] = parts;
  if (first === undefined) return '';
  return parts.length === 1 && first.type === 'text' ? first.text : parts;
}
