/**
 * Translates the input of a responses request to chat messages: the items of one response (reasoning, text, calls) become one message of the
 * assistant, and results of tools follow it.
 */
import type { JsonObject } from '../../../core/json/narrow.ts';
import { asArray, asString } from '../../../core/json/narrow.ts';
import { rejectUntranslatable } from '../../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, omitNullish } from '../../json/lossless-json.ts';
import { unsealReasoning } from '../../json/sealed-reasoning.ts';
import { createToolIds } from '../tool-ids.ts';
import { toCustomArguments, toVendorName } from './tools.ts';

/** A message of the assistant that may get more items. */
interface OpenTurn {
  text: string;
  /** Thinking blocks, for a messages vendor. */
  readonly thinking: JsonObject[];
  /** Members of the message, for a chat vendor. */
  reasoning: JsonObject;
  readonly calls: JsonObject[];
}

/**
 * Messages for a vendor of the dialect `target`. For `messages` they are translated again by `requestToMessages`, which takes images in
 * results of tools, and the order of text and thinking from several messages of the assistant in a row; chat vendors accept neither.
 */
export function toChatMessages(body: JsonObject, target: 'chat' | 'messages'): JsonObject[] {
  const messages: JsonObject[] = [];
  const ids = createToolIds('chat');
  const forCall = (id: unknown): unknown => (target === 'chat' ? ids.forCall(id) : id);
  const forResult = (id: unknown): unknown => (target === 'chat' ? ids.forResult(id) : id);
  let turn: OpenTurn | null = null;
  let attached: JsonObject[] = [];

  const endTurn = (): void => {
    if (turn) messages.push(toAssistantMessage(turn));
    turn = null;
  };
  const openTurn = (): OpenTurn => {
    endResults();
    turn ??= { text: '', thinking: [], reasoning: {}, calls: [] };
    return turn;
  };
  /** A chat vendor takes no images in results, so they follow the last result. */
  const endResults = (): void => {
    if (attached.length > 0) messages.push({ role: 'user', content: attached });
    attached = [];
  };
  const addSystem = (text: string): void => {
    const last = messages.at(-1);
    // Some vendors accept one system message, at the start.
    if (messages.length === 1 && last?.role === 'system') messages[0] = { role: 'system', content: `${last.content}\n\n${text}` };
    else if (text !== '') messages.push({ role: 'system', content: text });
  };
  const addAssistantText = (text: string): void => {
    if (target === 'messages' && turn !== null && turn.calls.length > 0) endTurn();
    openTurn().text += text;
  };
  const addReasoning = (reasoning: JsonObject | null): void => {
    if (reasoning === null) return;
    const isThinking = reasoning.type === 'thinking' || reasoning.type === 'redacted_thinking';
    if (target === 'messages' && !isThinking) return;
    if (target === 'messages' && turn !== null && (turn.text !== '' || turn.calls.length > 0)) endTurn();
    if (target === 'messages') openTurn().thinking.push(reasoning);
    else if (!isThinking) openTurn().reasoning = joinReasoning(openTurn().reasoning, reasoning);
  };
  const addResult = (callId: unknown, output: unknown, at: string): void => {
    endTurn();
    const parts = toParts(output, at);
    const id = forResult(callId);
    const texts = target === 'messages' ? parts : parts.filter(({ type }) => type === 'text');
    const others = target === 'messages' ? [] : parts.filter(({ type }) => type !== 'text');
    messages.push({ role: 'tool', tool_call_id: id, content: toContent(texts) });
    if (others.length > 0) attached.push({ type: 'text', text: `Attached to the result of tool call ${id}:` }, ...others);
  };

  const addItem = (item: JsonObject, at: string): void => {
    const { type, role, content, call_id: callId } = item;
    switch (type) {
      case undefined:
      case null:
      case 'message':
        switch (role) {
          case 'user':
            endTurn();
            endResults();
            messages.push({ role: 'user', content: toContent(toParts(content, at)) });
            return;
          case 'system':
          case 'developer':
            endTurn();
            endResults();
            addSystem(toText(content, at, '\n'));
            return;
          case 'assistant':
            addAssistantText(toText(content, at, ''));
            return;
          default:
            rejectUntranslatable(`${at}: the role must be user, assistant, system or developer`);
        }
        return;
      case 'reasoning':
        // Reasoning that a vendor encrypted means nothing to another vendor.
        addReasoning(unsealReasoning(item.encrypted_content));
        return;
      case 'function_call':
        openTurn().calls.push(toToolCall(item, forCall(callId), asString(item.arguments) ?? '', at));
        return;
      case 'custom_tool_call':
        openTurn().calls.push(toToolCall(item, forCall(callId), toCustomArguments(item.input), at));
        return;
      case 'function_call_output':
      case 'custom_tool_call_output':
        addResult(callId, item.output, at);
        return;
      case 'additional_tools':
      case 'tool_search_call':
      case 'tool_search_output':
        // `translateTools` reads their tools.
        return;
      case 'web_search_call':
        // A record that the vendor searched, without results.
        return;
      case 'item_reference':
        rejectUntranslatable(`${at}: item_reference: this model's vendor stores no responses; send the item, as SDKs do with store: false`);
        return;
      default:
        rejectUntranslatable(`${at}: items of this type do not exist at this model's vendor`);
    }
  };

  const instructions = body.instructions ?? '';
  addSystem(typeof instructions === 'string' ? instructions : rejectUntranslatable('instructions: must be text'));
  for (const [position, item] of toItems(body.input).entries()) addItem(asLosslessObject(item), `input[${position}]`);
  endTurn();
  endResults();
  return target === 'chat' ? withoutOldReasoning(messages) : messages;
}

function toItems(input: unknown): readonly unknown[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  return Array.isArray(input) ? input : rejectUntranslatable('input: must be text or a list');
}

function toAssistantMessage({ text, thinking, reasoning, calls }: OpenTurn): JsonObject {
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...reasoning,
    ...(thinking.length > 0 ? { reasoning_details: thinking.map(toReasoningDetail) } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

/** A response may reason in several places; a message of the chat dialect has one. */
function joinReasoning(before: JsonObject, more: JsonObject): JsonObject {
  const content = `${asString(before.reasoning_content) ?? ''}${asString(more.reasoning_content) ?? ''}`;
  const details = [...asArray(before.reasoning_details), ...asArray(more.reasoning_details)];
  return { ...(content === '' ? {} : { reasoning_content: content }), ...(details.length > 0 ? { reasoning_details: details } : {}) };
}

function toReasoningDetail({ type, thinking, signature, data }: JsonObject): JsonObject {
  return type === 'redacted_thinking' ? { type: 'reasoning.encrypted', data } : { type: 'reasoning.text', text: thinking, signature };
}

/** Chat vendors need their reasoning during a loop of tool calls only; some reject it after the next message of the user. */
function withoutOldReasoning(messages: readonly JsonObject[]): JsonObject[] {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  return messages.map((message, position) => {
    if (position > lastUser || message.role !== 'assistant') return message;
    const { reasoning_content: _content, reasoning_details: _details, ...rest } = message;
    return rest;
  });
}

function toToolCall({ name, namespace }: JsonObject, id: unknown, argumentText: string, at: string): JsonObject {
  const toolName = asNonEmptyString(name) ?? rejectUntranslatable(`${at}: the call has no name`);
  const fn = { name: toVendorName(toolName, asNonEmptyString(namespace)), arguments: argumentText };
  return { id, type: 'function', function: fn };
}

/** Text of a message that may hold only text; refusals of the assistant are text, too. */
function toText(content: unknown, at: string, separator: string): string {
  const texts = toParts(content, at).map(({ text }) => asString(text) ?? rejectUntranslatable(`${at}: may hold only text`));
  return texts.join(separator);
}

function toParts(content: unknown, at: string): JsonObject[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) return rejectUntranslatable(`${at}: the content is neither text nor a list`);
  return content.map((part: unknown) => toPart(asLosslessObject(part), at));
}

function toPart(part: JsonObject, at: string): JsonObject {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      return { type: 'text', text: asString(part.text) ?? rejectUntranslatable(`${at}: a text has no text`) };
    case 'refusal':
      return { type: 'text', text: asString(part.refusal) ?? '' };
    case 'input_image': {
      const url = asNonEmptyString(part.image_url);
      if (url === null) return rejectUntranslatable(`${at}: file_id names a file at OpenAI; send image_url`);
      return { type: 'image_url', image_url: { url, ...omitNullish({ detail: part.detail === 'auto' ? null : part.detail }) } };
    }
    case 'input_file': {
      const data = asNonEmptyString(part.file_data);
      if (data === null) return rejectUntranslatable(`${at}: file_id and file_url cannot be expressed; send file_data`);
      return { type: 'file', file: { ...omitNullish({ filename: part.filename }), file_data: data } };
    }
    case 'input_audio':
      return isLosslessObject(part.input_audio) ? part : rejectUntranslatable(`${at}: input_audio has no audio`);
    default:
      return rejectUntranslatable(`${at}: content of this type does not exist at this model's vendor`);
  }
}

/** A single text as a string, which every vendor accepts and some require. */
function toContent(parts: readonly JsonObject[]): unknown {
  const [first] = parts;
  if (first === undefined) return '';
  return parts.length === 1 && first.type === 'text' ? first.text : parts;
}
