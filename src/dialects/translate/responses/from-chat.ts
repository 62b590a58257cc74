/** Translates the JSON response and the stream of a chat vendor for a caller of responses. Pure. */
import { asArray, asCount, asObject, asString, isObject, type JsonObject, parseJson } from '../../../core/json/narrow.ts';
import type { Tokens } from '../../../core/pricing.ts';
import type { SseEvent } from '../../../core/sse.ts';
import { parseChatUsage } from '../../contract/token-usage.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, toPlainNumbers } from '../../json/lossless-json.ts';
import { sealReasoning } from '../../json/sealed-reasoning.ts';
import { toJsonText } from '../../prompt/prompt-extras.ts';
import { isNextCall } from '../block-queue.ts';
import type { StreamState } from '../stream.ts';
import { createToolId } from '../tool-ids.ts';
import { keepAlive } from './call-items.ts';
import type { RequestEcho } from './request.ts';
import type { ResponsesTranslator } from './translator.ts';
import { toResponsesUsage } from './usage.ts';
import { createResponsesWriter, type IncompleteReason, type ResponsesIdentity, type ResponsesWriter } from './writer.ts';

/** Null when `answer` is not a chat response. `answer` comes from `parseLossless`. */
export function chatToResponse(answer: JsonObject, identity: ResponsesIdentity, echo: RequestEcho): JsonObject | null {
  const { message, finish_reason: finishReason } = asLosslessObject(asArray(answer.choices)[0]);
  if (!isLosslessObject(message)) return null;
  const writer = createResponsesWriter(identity, echo);
  writer.start(asNonEmptyString(answer.model));
  const reasoning = createReasoning();
  writer.reasoning(reasoning.add(message));
  endReasoning(writer, reasoning);
  writer.text(getText(message));
  writer.refusal(asString(message.refusal) ?? '');
  const { tool_calls: calls, function_call: legacyCall } = message;
  const all = [...asArray(calls).map(asLosslessObject), ...(isLosslessObject(legacyCall) ? [{ function: legacyCall }] : [])];
  for (const [position, call] of all.entries()) {
    const { name, arguments: argumentText } = asLosslessObject(call.function);
    const id = asNonEmptyString(call.id) ?? createToolId('chat', identity.id, position);
    writer.startCall(position, { id, name: asString(name) ?? '' });
    writer.callArguments(position, toArgumentText(argumentText));
    writer.endCall(position);
  }
  const usage = toPlainNumbers(answer.usage);
  writer.finish({
    incomplete: toIncompleteReason(finishReason),
    usage: toResponsesUsage(parseChatUsage(usage), countReasoning(usage) ?? 0),
  });
  return writer.response();
}

function toArgumentText(argumentText: unknown): string {
  return isLosslessObject(argumentText) ? toJsonText(argumentText) : (asString(argumentText) ?? '');
}

function toIncompleteReason(finishReason: unknown): IncompleteReason | null {
  if (finishReason === 'length') return 'max_output_tokens';
  return finishReason === 'content_filter' ? 'content_filter' : null;
}

function countReasoning(usage: unknown): number | undefined {
  return asCount(asObject(asObject(usage).completion_tokens_details).reasoning_tokens);
}

/** Some vendors send content as parts, of which thinking parts are not text. */
function getText({ content }: JsonObject): string {
  const parts = asArray(content).map(asLosslessObject);
  return asString(content) ?? parts.map((part) => (part.type === 'text' ? (asString(part.text) ?? '') : '')).join('');
}

/** Reasoning without text, which only the vendor can read, is an item, too. */
function endReasoning(writer: ResponsesWriter, reasoning: Reasoning): string {
  const sealed = reasoning.seal(writer.isReasoning());
  return sealed === null ? '' : writer.endReasoning(sealed);
}

/** The reasoning of a message or of its deltas. */
interface Reasoning {
  /** Returns the text of the reasoning in `delta`. */
  add(delta: JsonObject): string;
  /**
   * Returns what the vendor gets back of what was added since the last call; null without reasoning. An item with text is sealed also when the
   * vendor takes nothing back, because a vendor that has the route rejects items of reasoning that it did not create.
   */
  seal(hasText: boolean): string | null;
}

function createReasoning(): Reasoning {
  let content = '';
  /** Text of any form. */
  let text = '';
  let details: JsonObject[] = [];
  return {
    add(delta) {
      const reasoningContent = asString(delta.reasoning_content) ?? '';
      content += reasoningContent;
      const added = asArray(delta.reasoning_details).map(asLosslessObject);
      for (const detail of added) details = mergeDetail(details, detail);
      const thinking = asArray(delta.content)
        .map(asLosslessObject)
        .filter(({ type }) => type === 'thinking');
      const texts = thinking.flatMap((part) => asArray(part.thinking).map((inner) => asString(asLosslessObject(inner).text) ?? ''));
      const detailText = added.map((detail) => asString(detail.text) ?? asString(detail.summary) ?? '').join('');
      // The entry with the signature may repeat the whole text.
      const more = reasoningContent || asString(delta.reasoning) || texts.join('') || (detailText === text ? '' : detailText);
      text += more;
      return more;
    },
    seal(hasText) {
      const members = {
        ...(content === '' ? {} : { reasoning_content: content }),
        ...(details.length > 0 ? { reasoning_details: details } : {}),
      };
      content = '';
      text = '';
      details = [];
      return hasText || Object.keys(members).length > 0 ? sealReasoning(members) : null;
    },
  };
}

/** Details arrive in pieces of the same index and type. */
function mergeDetail(details: readonly JsonObject[], piece: JsonObject): JsonObject[] {
  const last = details.at(-1);
  if (!last || last.type !== piece.type || last.index !== piece.index) return [...details, piece];
  const merged = { ...last, ...piece };
  for (const name of ['text', 'summary', 'data', 'signature']) {
    const [before, more] = [asString(last[name]) ?? '', asString(piece[name]) ?? ''];
    if (before + more !== '') merged[name] = before + more;
  }
  return [...details.slice(0, -1), merged];
}

/** A call whose first pieces may lack its name. */
interface PendingCall {
  id: string | null;
  isStarted: boolean;
  name: string;
  waiting: string;
  /** All arguments so far. */
  arguments: string;
  readonly position: number;
}

export function createChatToResponses(identity: ResponsesIdentity, echo: RequestEcho): ResponsesTranslator {
  const writer = createResponsesWriter(identity, echo);
  const reasoning = createReasoning();
  const calls = new Map<unknown, PendingCall>();
  let lastKey: unknown = null;
  let callCount = 0;
  let begun = false;
  let ended: StreamState['ended'] = null;
  let problem: string | null = null;
  let tokens: Tokens | null = null;
  let reasoningTokens = 0;
  let finishReason: string | null = null;

  const startCall = (key: unknown, call: PendingCall): string => {
    call.isStarted = true;
    const id = call.id ?? createToolId('chat', identity.id, call.position);
    return writer.startCall(key, { id, name: call.name }) + writer.callArguments(key, call.waiting);
  };

  const addCall = ({ index, id, function: fn }: JsonObject): string => {
    // Vendors that omit the index send complete calls, each with its id, or continue the last one.
    const key = index ?? asNonEmptyString(id) ?? lastKey;
    lastKey = key;
    const { name, arguments: more } = asObject(fn);
    const known = calls.get(key);
    const isKnown = known !== undefined && !isNextCall(known, id, name);
    const call = isKnown ? known : { id: null, isStarted: false, name: '', waiting: '', arguments: '', position: callCount };
    if (!isKnown) callCount += 1;
    calls.set(key, call);
    const piece = toArgumentText(more);
    call.arguments += piece;
    call.id ??= asNonEmptyString(id);
    if (call.name === '') call.name = asString(name) ?? '';
    if (call.isStarted) return writer.callArguments(key, piece);
    call.waiting += piece;
    return call.name === '' ? '' : startCall(key, call);
  };

  const addDelta = (delta: JsonObject): string => {
    let events = writer.reasoning(reasoning.add(delta));
    const [text, refusal] = [getText(delta), asString(delta.refusal) ?? ''];
    const toolCalls = [...asArray(delta.tool_calls).map(asObject)];
    if (isObject(delta.function_call)) toolCalls.push({ index: 'function_call', function: delta.function_call });
    if (text !== '' || refusal !== '' || toolCalls.length > 0) events += endReasoning(writer, reasoning);
    events += writer.text(text) + writer.refusal(refusal);
    for (const call of toolCalls) events += addCall(call);
    return events;
  };

  const addChunk = (chunk: JsonObject): string => {
    for (const usage of [chunk.usage, asObject(chunk.x_groq).usage]) {
      tokens = parseChatUsage(usage) ?? tokens;
      reasoningTokens = countReasoning(usage) ?? reasoningTokens;
    }
    // Further choices (`n` > 1) have no equivalent; a first chunk without choices carries no content.
    const choices = asArray(chunk.choices).map(asObject);
    const choice = choices.find(({ index }) => index === undefined || index === null || index === 0);
    if (!choice) return '';
    begun = true;
    finishReason = asString(choice.finish_reason) ?? finishReason;
    const started = writer.start(asNonEmptyString(chunk.model));
    return started + addDelta(asObject(choice.delta));
  };

  const usage = (): JsonObject | null => toResponsesUsage(tokens, reasoningTokens);

  const finish = (): string => {
    ended = 'whole';
    const thought = endReasoning(writer, reasoning);
    const unnamed = [...calls].map(([key, call]) => (call.isStarted ? '' : startCall(key, call))).join('');
    return thought + unnamed + writer.finish({ incomplete: toIncompleteReason(finishReason), usage: usage() });
  };

  const fail = (reason: string): string => {
    ended = 'broken';
    problem = reason;
    return '';
  };

  return {
    push({ data }: SseEvent) {
      if (ended !== null) return '';
      if (data === '') return begun ? keepAlive : '';
      if (data === '[DONE]') return begun ? finish() : '';
      const chunk = parseJson(data);
      if (!isObject(chunk)) return '';
      const { error } = chunk;
      if (error === undefined || error === null) return addChunk(chunk);
      return fail(asString(asObject(error).message) ?? asString(error) ?? 'the vendor reported an error');
    },
    end() {
      if (ended !== null) return '';
      return finishReason === null || !begun ? fail('the vendor ended the stream early') : finish();
    },
    state: () => ({ begun, ended, problem }),
    fail: (message) => writer.fail(message, usage()),
    response: writer.response,
  };
}
