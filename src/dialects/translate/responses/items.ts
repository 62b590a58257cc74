/**
 * Translates the input of a responses request to chat messages. The items that belong to one response (reasoning, text
 * and calls) become one assistant message, followed by the results of its tools.
 */
import type { ModelTraits } from '../../../core/candidate.ts';
import { asArray, asString, type JsonObject } from '../../../core/json/narrow.ts';
import { rejectUntranslatable } from '../../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, omitNullish } from '../../json/lossless-json.ts';
import { unsealReasoning } from '../../json/sealed-reasoning.ts';
import { type ReasoningPart, readReasoning, readThinkingBlock, signedParts } from '../chat-reasoning.ts';
import { createToolIds } from '../ids.ts';
import { attachTo, fillReasoning, toContent, toReasoningHistory } from '../messages-turns.ts';
import { toCustomArguments, toVendorName } from './tools.ts';

/** The format in which a vendor accepts the reasoning of earlier turns. */
export type ReasoningForm = 'messages' | NonNullable<ModelTraits['takesReasoning']>;

/** The assistant message that we're building. The next items may still add to it. */
interface OpenTurn {
  text: string;
  readonly reasoning: ReasoningPart[];
  /** The `reasoning_details` of a chat vendor, unchanged. */
  readonly details: unknown[];
  readonly calls: JsonObject[];
}

/**
 * Translates the input of a responses request to chat messages. If the request goes to a messages vendor,
 * `requestToMessages` then translates the result to the messages dialect. In that case, we leave images in tool
 * results, which chat vendors don't accept, and use several assistant messages in a row to preserve the order of text
 * and thinking.
 */
export function toChatMessages(body: JsonObject, form: ReasoningForm): JsonObject[] {
  const target = form === 'messages' ? 'messages' : 'chat';
  const messages: JsonObject[] = [];
  const ids = createToolIds('chat');
  const forCall = (id: unknown): unknown => (target === 'chat' ? ids.forCall(id) : id);
  const forResult = (id: unknown): unknown => (target === 'chat' ? ids.forResult(id) : id);
  let turn: OpenTurn | null = null;
  let attached: JsonObject[] = [];

  const endTurn = (): void => {
    // A message can't consist of reasoning alone, so drop it if there's nothing else.
    if (turn && (turn.text !== '' || turn.calls.length > 0)) messages.push(toAssistantMessage(turn, form));
    turn = null;
  };
  const openTurn = (): OpenTurn => {
    endResults();
    turn ??= { text: '', reasoning: [], details: [], calls: [] };
    return turn;
  };
  /**
   * Sends images from tool results in a user message after the last result, because chat vendors don't accept them in a
   * result.
   */
  const endResults = (): void => {
    if (attached.length > 0) messages.push({ role: 'user', content: attached });
    attached = [];
  };
  const addSystem = (text: string): void => {
    const last = messages.at(-1);
    // Some vendors only accept one system message, which has to come first.
    if (messages.length === 1 && last?.role === 'system') messages[0] = { role: 'system', content: `${last.content}\n\n${text}` };
    else if (text !== '') messages.push({ role: 'system', content: text });
  };
  const addAssistantText = (text: string): void => {
    if (target === 'messages' && turn !== null && turn.calls.length > 0) endTurn();
    openTurn().text += text;
  };
  const addReasoning = (reasoning: JsonObject | null): void => {
    if (reasoning === null || form === 'none') return;
    const parts = [...readThinkingBlock(reasoning), ...readReasoning(reasoning)];
    if (form === 'messages' && signedParts(parts).length === 0) return;
    if (form === 'messages' && turn !== null && (turn.text !== '' || turn.calls.length > 0)) endTurn();
    const { reasoning: held, details } = openTurn();
    // `push(...parts)` passes every part as an argument, which could overflow the stack.
    for (const part of parts) held.push(part);
    for (const detail of asArray(reasoning.reasoning_details)) details.push(detail);
  };
  const addResult = (callId: unknown, output: unknown, at: string): void => {
    endTurn();
    const parts = toParts(output, at);
    const id = forResult(callId);
    const texts = target === 'messages' ? parts : parts.filter(({ type }) => type === 'text');
    const others = target === 'messages' ? [] : parts.filter(({ type }) => type !== 'text');
    messages.push({ role: 'tool', tool_call_id: id, content: toContent(texts) });
    for (const part of attachTo(id, others)) attached.push(part);
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
        // Reasoning that a vendor has encrypted is of no use to another vendor, so only unseal reasoning that the
        // gateway sealed.
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
        // `translateTools` has already collected the tools in these items.
        return;
      case 'web_search_call':
        // A search item only says that there was a search, without its results, so it's no use to another vendor.
        return;
      case 'item_reference':
        rejectUntranslatable(
          `${at}: this model's vendor does not store responses; send the item itself instead of item_reference, as SDKs do with store: false`,
        );
        return;
      default:
        rejectUntranslatable(`${at}: this model's vendor does not support items of this type`);
    }
  };

  const instructions = body.instructions ?? '';
  addSystem(typeof instructions === 'string' ? instructions : rejectUntranslatable('instructions: must be text'));
  for (const [position, item] of toItems(body.input).entries()) addItem(asLosslessObject(item), `input[${position}]`);
  endTurn();
  endResults();
  return form === 'text' ? fillReasoning(messages) : messages;
}

function toItems(input: unknown): readonly unknown[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  return Array.isArray(input) ? input : rejectUntranslatable('input: must be text or a list');
}

function toAssistantMessage({ text, reasoning, details, calls }: OpenTurn, form: ReasoningForm): JsonObject {
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...toReasoningHistory(reasoning, form === 'messages' ? 'details' : form),
    ...(form === 'details' && details.length > 0 ? { reasoning_details: details } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function toToolCall({ name, namespace }: JsonObject, id: unknown, argumentText: string, at: string): JsonObject {
  const toolName = asNonEmptyString(name) ?? rejectUntranslatable(`${at}: the call must have a name`);
  const fn = { name: toVendorName(toolName, asNonEmptyString(namespace)), arguments: argumentText };
  return { id, type: 'function', function: fn };
}

/** Returns the text of a message that can't contain anything else. A refusal by the assistant counts as text. */
function toText(content: unknown, at: string, separator: string): string {
  const texts = toParts(content, at).map(({ text }) => asString(text) ?? rejectUntranslatable(`${at}: may only contain text`));
  return texts.join(separator);
}

function toParts(content: unknown, at: string): JsonObject[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) return rejectUntranslatable(`${at}: the content must be text or a list`);
  return content.map((part: unknown) => toPart(asLosslessObject(part), at));
}

function toPart(part: JsonObject, at: string): JsonObject {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      return { type: 'text', text: asString(part.text) ?? rejectUntranslatable(`${at}: a text part must have text`) };
    case 'refusal':
      return { type: 'text', text: asString(part.refusal) ?? '' };
    case 'input_image': {
      const url = asNonEmptyString(part.image_url);
      if (url === null) return rejectUntranslatable(`${at}: file_id is not supported by this model's vendor; send image_url`);
      return { type: 'image_url', image_url: { url, ...omitNullish({ detail: part.detail === 'auto' ? null : part.detail }) } };
    }
    case 'input_file': {
      const data = asNonEmptyString(part.file_data);
      if (data === null)
        return rejectUntranslatable(`${at}: file_id and file_url are not supported by this model's vendor; send file_data`);
      return { type: 'file', file: { ...omitNullish({ filename: part.filename }), file_data: data } };
    }
    case 'input_audio':
      return isLosslessObject(part.input_audio) ? part : rejectUntranslatable(`${at}: input_audio must be an object with audio`);
    default:
      return rejectUntranslatable(`${at}: content of this type is not supported by this model's vendor`);
  }
}
