/**
 * Writes a response of the responses route piece by piece: returns the events of a stream, and builds the response that the last event
 * holds. A JSON response is written the same way, without its events, so that both are equal.
 *
 * Items have stable ids, derived from that of the call. Calls of tools may overlap; text and reasoning end when another item begins.
 */
import { isObject, type JsonObject, parseJson } from '../../../core/json/narrow.ts';
import { formatEvent } from '../../../core/sse.ts';
import { parseLossless } from '../../json/parse-lossless.ts';
import type { RequestEcho } from './request.ts';
import { parseCustomArguments } from './tools.ts';

export interface ResponsesIdentity {
  /** The call's id. */
  readonly id: string;
  readonly model: string;
  readonly createdSeconds: number;
}

/** A piece of the response returns its events, ready to send. */
export interface ResponsesWriter {
  /** Starts the response; the vendor's model name, if it sent one. */
  start(model: string | null): string;
  text(piece: string): string;
  refusal(piece: string): string;
  reasoning(piece: string): string;
  /** Ends the reasoning, also one without text. `sealed` is what the caller sends back; null when the vendor needs nothing back. */
  endReasoning(sealed: string | null): string;
  isReasoning(): boolean;
  /** `key` identifies the call in further pieces. */
  startCall(key: unknown, call: { readonly id: string; readonly name: string }): string;
  hasCall(key: unknown): boolean;
  callArguments(key: unknown, piece: string): string;
  endCall(key: unknown): string;
  callCount(): number;
  /** `incomplete` is the reason why the response is not complete. */
  finish(end: { readonly incomplete: IncompleteReason | null; readonly usage: JsonObject | null }): string;
  /** Ends a stream that broke. */
  fail(message: string, usage: JsonObject | null): string;
  /** The response as it is now. */
  response(): JsonObject;
}

export type IncompleteReason = 'max_output_tokens' | 'content_filter';

interface OpenText {
  readonly kind: 'message';
  readonly index: number;
  readonly id: string;
  readonly parts: JsonObject[];
  part: { readonly type: 'output_text' | 'refusal'; text: string } | null;
}

interface OpenReasoning {
  readonly kind: 'reasoning';
  readonly index: number;
  readonly id: string;
  text: string;
}

interface OpenCall {
  readonly index: number;
  readonly id: string;
  readonly callId: string;
  readonly isCustom: boolean;
  readonly names: JsonObject;
  arguments: string;
}

/** Sent while there is nothing to send, so that no proxy considers the connection idle. */
export const keepAlive = ': keep-alive\n\n';

export function createResponsesWriter(identity: ResponsesIdentity, { members, tools }: RequestEcho): ResponsesWriter {
  const digits = identity.id.replaceAll(/[^A-Za-z0-9]/g, '');
  /** Ended items by their place in the output. */
  const items: JsonObject[] = [];
  let itemCount = 0;
  let sequence = 0;
  let hasStarted = false;
  let { model } = identity;
  let status = 'in_progress';
  let usage: JsonObject | null = null;
  let error: JsonObject | null = null;
  let incomplete: IncompleteReason | null = null;
  let open: OpenText | OpenReasoning | null = null;
  const calls = new Map<unknown, OpenCall>();
  let callCount = 0;

  const event = (type: string, more: JsonObject): string => {
    const text = formatEvent(type, { type, sequence_number: sequence, ...more });
    sequence += 1;
    return text;
  };

  const response = (): JsonObject => ({
    id: `resp_${digits}`,
    object: 'response',
    created_at: identity.createdSeconds,
    status,
    error,
    incomplete_details: incomplete === null ? null : { reason: incomplete },
    model,
    output: items.filter((item) => item !== undefined),
    ...members,
    usage,
  });

  const newItem = (prefix: string): { index: number; id: string } => {
    const index = itemCount;
    itemCount += 1;
    return { index, id: `${prefix}_${digits}${String(index).padStart(4, '0')}` };
  };
  const added = (index: number, item: JsonObject): string => event('response.output_item.added', { output_index: index, item });
  const done = (index: number, item: JsonObject): string => {
    items[index] = item;
    return event('response.output_item.done', { output_index: index, item });
  };

  const toPart = ({ type, text }: { type: string; text: string }): JsonObject =>
    type === 'refusal' ? { type, refusal: text } : { type, text, annotations: [], logprobs: [] };

  const openText = (): { events: string; message: OpenText } => {
    if (open?.kind === 'message') return { events: '', message: open };
    const ended = endOpen() + endWholeCalls();
    const message: OpenText = { kind: 'message', ...newItem('msg'), parts: [], part: null };
    open = message;
    const item = { id: message.id, type: 'message', status: 'in_progress', role: 'assistant', content: [] };
    return { events: ended + added(message.index, item), message };
  };

  const partPlace = ({ id, index, parts }: OpenText): JsonObject => ({ item_id: id, output_index: index, content_index: parts.length });

  const endPart = (message: OpenText): string => {
    const { part } = message;
    if (part === null) return '';
    const place = partPlace(message);
    const whole = toPart(part);
    const text =
      part.type === 'refusal'
        ? event('response.refusal.done', { ...place, refusal: part.text })
        : event('response.output_text.done', { ...place, text: part.text, logprobs: [] });
    message.parts.push(whole);
    message.part = null;
    return text + event('response.content_part.done', { ...place, part: whole });
  };

  const addText = (type: 'output_text' | 'refusal', piece: string): string => {
    if (piece === '') return '';
    let { events, message } = openText();
    if (message.part?.type !== type) {
      events += endPart(message);
      message.part = { type, text: '' };
      events += event('response.content_part.added', { ...partPlace(message), part: toPart(message.part) });
    }
    message.part.text += piece;
    const delta = { ...partPlace(message), delta: piece, ...(type === 'refusal' ? {} : { logprobs: [] }) };
    return events + event(`response.${type}.delta`, delta);
  };

  const openReasoning = (): { events: string; reasoning: OpenReasoning } => {
    if (open?.kind === 'reasoning') return { events: '', reasoning: open };
    const ended = endOpen() + endWholeCalls();
    const reasoning: OpenReasoning = { kind: 'reasoning', ...newItem('rs'), text: '' };
    open = reasoning;
    return { events: ended + added(reasoning.index, { id: reasoning.id, type: 'reasoning', summary: [] }), reasoning };
  };

  const summaryPlace = ({ id, index }: OpenReasoning): JsonObject => ({ item_id: id, output_index: index, summary_index: 0 });

  const endReasoning = (sealed: string | null): string => {
    const { events, reasoning } = openReasoning();
    open = null;
    const { id, index, text } = reasoning;
    const part = { type: 'summary_text', text };
    const item = { id, type: 'reasoning', summary: text === '' ? [] : [part], ...(sealed === null ? {} : { encrypted_content: sealed }) };
    if (text === '') return events + done(index, item);
    const place = summaryPlace(reasoning);
    const ends =
      event('response.reasoning_summary_text.done', { ...place, text }) + event('response.reasoning_summary_part.done', { ...place, part });
    return events + ends + done(index, item);
  };

  /** Ends the text or reasoning that is open. */
  const endOpen = (): string => {
    if (open === null) return '';
    if (open.kind === 'reasoning') return endReasoning(null);
    const message = open;
    open = null;
    const events = endPart(message);
    const { id, index, parts } = message;
    // A text that ends with the response ends as the response does.
    const itemStatus = incomplete === null ? 'completed' : 'incomplete';
    return events + done(index, { id, type: 'message', status: itemStatus, role: 'assistant', content: parts });
  };

  const toCallItem = (call: OpenCall, itemStatus: string, argumentText: string): JsonObject => ({
    id: call.id,
    type: call.isCustom ? 'custom_tool_call' : 'function_call',
    status: itemStatus,
    [call.isCustom ? 'input' : 'arguments']: argumentText,
    call_id: call.callId,
    ...call.names,
  });

  const endCall = (key: unknown): string => {
    const call = calls.get(key);
    if (!call) return '';
    calls.delete(key);
    const { id, index, isCustom } = call;
    const place = { item_id: id, output_index: index };
    if (!isCustom) {
      const argumentText = call.arguments.trim() === '' ? '{}' : call.arguments;
      const missing =
        argumentText === call.arguments ? '' : event('response.function_call_arguments.delta', { ...place, delta: argumentText });
      const ended = event('response.function_call_arguments.done', { ...place, name: call.names.name, arguments: argumentText });
      return missing + ended + done(index, toCallItem(call, toCallStatus(argumentText), argumentText));
    }
    const input = parseCustomArguments(call.arguments, parseLossless);
    const delta = input === '' ? '' : event('response.custom_tool_call_input.delta', { ...place, delta: input });
    const ended = event('response.custom_tool_call_input.done', { ...place, input });
    return delta + ended + done(index, toCallItem(call, toCallStatus(call.arguments), input));
  };

  /** Ends the calls to which no piece can be added. */
  const endWholeCalls = (): string => [...calls].map(([key, call]) => (isWholeJson(call.arguments) ? endCall(key) : '')).join('');

  return {
    start(vendorModel) {
      if (hasStarted) return '';
      hasStarted = true;
      model = vendorModel ?? model;
      return event('response.created', { response: response() }) + event('response.in_progress', { response: response() });
    },
    text: (piece) => addText('output_text', piece),
    refusal: (piece) => addText('refusal', piece),
    reasoning(piece) {
      if (piece === '') return '';
      let { events, reasoning } = openReasoning();
      const place = summaryPlace(reasoning);
      if (reasoning.text === '')
        events += event('response.reasoning_summary_part.added', { ...place, part: { type: 'summary_text', text: '' } });
      reasoning.text += piece;
      return events + event('response.reasoning_summary_text.delta', { ...place, delta: piece });
    },
    endReasoning,
    isReasoning: () => open?.kind === 'reasoning',
    startCall(key, { id: callId, name: vendorName }) {
      const ended = endOpen() + endWholeCalls();
      const { kind = 'function', name = vendorName, namespace = null } = tools.get(vendorName) ?? {};
      const isCustom = kind === 'custom';
      const names = { name, ...(namespace === null ? {} : { namespace }) };
      const call: OpenCall = { ...newItem(isCustom ? 'ctc' : 'fc'), callId, isCustom, names, arguments: '' };
      calls.set(key, call);
      callCount += 1;
      return ended + added(call.index, toCallItem(call, 'in_progress', ''));
    },
    hasCall: (key) => calls.has(key),
    callArguments(key, piece) {
      const call = calls.get(key);
      if (!call || piece === '') return '';
      call.arguments += piece;
      // The text for a custom tool is known when its JSON is complete.
      if (call.isCustom) return keepAlive;
      return event('response.function_call_arguments.delta', { item_id: call.id, output_index: call.index, delta: piece });
    },
    endCall,
    callCount: () => callCount,
    finish(end) {
      ({ incomplete, usage } = end);
      let events = endOpen() + [...calls.keys()].map(endCall).join('');
      if (itemCount === 0 && incomplete === null) events += emptyMessage();
      status = incomplete === null ? 'completed' : 'incomplete';
      return events + event(`response.${status}`, { response: response() });
    },
    fail(message, tokens) {
      status = 'failed';
      usage = tokens;
      error = { code: 'server_error', message };
      return event('response.failed', { response: response() });
    },
    response,
  };

  /** A response without content still has a message. */
  function emptyMessage(): string {
    const { events, message } = openText();
    message.part = { type: 'output_text', text: '' };
    const part = event('response.content_part.added', { ...partPlace(message), part: toPart(message.part) });
    return events + part + endOpen();
  }
}

/** A response may end within the arguments of a call. */
function toCallStatus(argumentText: string): string {
  return isWholeJson(argumentText) ? 'completed' : 'incomplete';
}

/** Whether arguments are a JSON object, which no further piece can extend. */
function isWholeJson(text: string): boolean {
  return text.trimEnd().endsWith('}') && isObject(parseJson(text));
}
