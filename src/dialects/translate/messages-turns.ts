/** Translates the system prompt and the messages of a messages request to chat messages. */
import type { ModelTraits } from '../../core/candidate.ts';
import { asString, type JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asNonEmptyString, isLosslessObject } from '../json/lossless-json.ts';
import { type ReasoningPart, readThinkingBlock, reasoningText, toReasoningMembers } from './chat-reasoning.ts';
import { createToolIds, type ToolIds } from './ids.ts';
import { toDocumentParts, toImagePart } from './media.ts';

/**
 * Returns the system prompt as one message, followed by the conversation. Thinking is converted to the form that the
 * vendor accepts, and cache breakpoints are dropped.
 */
export function toChatMessages(body: JsonObject, takesReasoning: ModelTraits['takesReasoning'] = 'none'): JsonObject[] {
  if (!Array.isArray(body.messages)) return rejectUntranslatable('messages: must be a list');
  const messages: readonly unknown[] = body.messages;
  const ids = createToolIds('chat');
  const system = systemText(body.system);
  const turns = messages.flatMap((message) => {
    if (!isLosslessObject(message)) return rejectUntranslatable('messages: a message must be an object');
    switch (message.role) {
      case 'system':
        return [{ role: 'system', content: systemText(message.content) }];
      case 'user':
        return toUserMessages(message.content, ids);
      case 'assistant':
        return [toAssistantMessage(message.content, ids, takesReasoning)];
      default:
        return rejectUntranslatable('messages: the role must be user, assistant or system');
    }
  });
  if (turns.at(-1)?.role === 'assistant')
    rejectUntranslatable('messages: a prefilled response is not supported by vendors that use the chat dialect');
  const complete = takesReasoning === 'text' ? fillReasoning(turns) : turns;
  return [...(system === '' ? [] : [{ role: 'system', content: system }]), ...complete];
}

/**
 * Adds blank reasoning where there is none. Once a conversation has tool calls, DeepSeek and Moonshot reject assistant
 * messages without reasoning, but they accept a blank text. Messages that come from other vendors may not have any
 * reasoning.
 */
export function fillReasoning(turns: readonly JsonObject[]): JsonObject[] {
  const hasToolCalls = turns.some((turn) => turn.tool_calls !== undefined);
  return turns.map((turn) =>
    hasToolCalls && turn.role === 'assistant' ? { ...turn, reasoning_content: turn.reasoning_content ?? ' ' } : turn,
  );
}

/** Joins the system prompt into one text, because some chat vendors don't accept parts in a system message. */
function systemText(content: unknown): string {
  return asBlocks(content)
    .map((block) => (block.type === 'text' ? asString(block.text) : null) ?? rejectUntranslatable('system: may only contain text'))
    .join('\n\n');
}

/** Converts a user message. Its tool results become separate messages, which come first. */
function toUserMessages(content: unknown, ids: ToolIds): JsonObject[] {
  const blocks = asBlocks(content);
  const results = blocks.filter((block) => block.type === 'tool_result').map((block) => toToolMessage(block, ids));
  const userParts = blocks.filter((block) => block.type !== 'tool_result').flatMap(toParts);
  const parts = [...results.flatMap(({ attached }) => attached), ...userParts];
  const messages = results.map(({ message }) => message);
  return parts.length === 0 && messages.length > 0 ? messages : [...messages, { role: 'user', content: toContent(parts) }];
}

/**
 * Converts a tool result. Chat tool messages can only contain text, so its images and files go into the user message
 * after it.
 */
function toToolMessage(block: JsonObject, ids: ToolIds): { message: JsonObject; attached: readonly JsonObject[] } {
  const id = ids.forResult(block.tool_use_id);
  const parts = asBlocks(block.content).flatMap(toParts);
  const texts = parts.filter((part) => part.type === 'text');
  const others = parts.filter((part) => part.type !== 'text');
  const resultTexts = block.is_error === true ? prefixError(texts) : texts;
  return { message: { role: 'tool', tool_call_id: id, content: toContent(resultTexts) }, attached: attachTo(id, others) };
}

/**
 * Puts the images and files of a tool result into a user message, behind a text that says which call they belong to.
 */
export function attachTo(callId: unknown, parts: readonly JsonObject[]): readonly JsonObject[] {
  return parts.length === 0 ? [] : [{ type: 'text', text: `Attached to the result of tool call ${callId}:` }, ...parts];
}

/** Chat has no `is_error`, so the text of the tool result says that it's an error. */
function prefixError([first, ...rest]: readonly JsonObject[]): JsonObject[] {
  return [{ type: 'text', text: `Error: ${asString(first?.text) ?? ''}`.trimEnd() }, ...rest];
}

function toAssistantMessage(content: unknown, ids: ToolIds, takesReasoning: ModelTraits['takesReasoning']): JsonObject {
  let text = '';
  const reasoning: ReasoningPart[] = [];
  const toolCalls: JsonObject[] = [];
  for (const block of asBlocks(content)) {
    switch (block.type) {
      case 'text':
        text += asString(block.text) ?? rejectUntranslatable('messages: a text block must have text');
        break;
      case 'tool_use':
        toolCalls.push(toToolCall(block, ids));
        break;
      case 'thinking':
      case 'redacted_thinking':
        reasoning.push(...readThinkingBlock(block));
        break;
      default:
        rejectUntranslatable(
          'messages: an assistant message has a content block whose type is not supported by vendors that use the chat dialect',
        );
    }
  }
  const message = { role: 'assistant', ...toReasoningHistory(reasoning, takesReasoning) };
  return toolCalls.length === 0 ? { ...message, content: text } : { ...message, content: text === '' ? null : text, tool_calls: toolCalls };
}

export function toReasoningHistory(parts: readonly ReasoningPart[], takesReasoning: ModelTraits['takesReasoning']): JsonObject {
  switch (takesReasoning) {
    case 'details':
      return toReasoningMembers(parts);
    case 'text': {
      const text = reasoningText(parts);
      return text === '' ? {} : { reasoning_content: text };
    }
    default:
      return {};
  }
}

function toToolCall({ id, name, input }: JsonObject, ids: ToolIds): JsonObject {
  const toolName = asNonEmptyString(name) ?? rejectUntranslatable('messages: a tool call must have a name');
  if (!isLosslessObject(input ?? {})) rejectUntranslatable('messages: the input of a tool call must be an object');
  return { id: ids.forCall(id), type: 'function', function: { name: toolName, arguments: JSON.stringify(input ?? {}) } };
}

function toParts(block: JsonObject): readonly JsonObject[] {
  switch (block.type) {
    case 'text': {
      const text = asString(block.text) ?? rejectUntranslatable('messages: a text block must have text');
      return text === '' ? [] : [{ type: 'text', text }];
    }
    case 'image':
      return [toImagePart(block)];
    case 'document':
      return toDocumentParts(block, (content) => asBlocks(content).flatMap(toParts));
    default:
      return rejectUntranslatable('messages: a content block has a type that is not supported by vendors that use the chat dialect');
  }
}

function asBlocks(content: unknown): readonly JsonObject[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) return rejectUntranslatable('messages: the content must be text or a list of blocks');
  return content.map((block: unknown) =>
    isLosslessObject(block) ? block : rejectUntranslatable('messages: a content block must be an object'),
  );
}

/** A single text becomes a plain string. Every chat vendor accepts that, and some don't accept anything else. */
export function toContent(parts: readonly JsonObject[]): unknown {
  const [first] = parts;
  if (first === undefined) return '';
  return parts.length === 1 && first.type === 'text' ? first.text : parts;
}
