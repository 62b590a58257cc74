/**
 * Writes a response for the responses route piece by piece. It returns the events of a stream, and also builds the
 * complete response that the last event contains. For a JSON response we run the same code and ignore the events, so a
 * stream and a JSON response always have the same content.
 *
 * Items have stable ids that are derived from the call's id. Tool calls may overlap, but text and reasoning end when
 * another item starts.
 */
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { IncompleteReason } from '../stop-reasons.ts';
import { createCallItems } from './call-items.ts';
import { createOutputItems, type ItemPlace, type OpenItem } from './output-items.ts';
import type { RequestEcho } from './request.ts';

export interface ResponsesIdentity {
  readonly id: string;
  readonly model: string;
  readonly createdSeconds: number;
}

export type ResponsesWriter = ReturnType<typeof createResponsesWriter>;

interface OpenText extends ItemPlace {
  readonly kind: 'message';
  readonly parts: JsonObject[];
  part: TextPart | null;
}

interface TextPart {
  readonly type: 'output_text' | 'refusal';
  text: string;
}

interface OpenReasoning extends ItemPlace {
  readonly kind: 'reasoning';
  text: string;
}

/** Functions that add something to the response return events, which can be sent right away. */
export function createResponsesWriter(identity: ResponsesIdentity, { members, tools }: RequestEcho) {
  const digits = identity.id.replaceAll(/[^A-Za-z0-9]/g, '');
  const items = createOutputItems(digits);
  const { event, added, done } = items;
  const calls = createCallItems(items, tools);
  let hasStarted = false;
  let { model } = identity;
  let status = 'in_progress';
  let usage: JsonObject | null = null;
  let error: JsonObject | null = null;
  let incomplete: IncompleteReason | null = null;
  let open: OpenText | OpenReasoning | null = null;

  const openItems = (): OpenItem[] => (open === null ? calls.open() : [...calls.open(), [open.index, toOpenItem(open)]]);

  const response = (): JsonObject => ({
    id: `resp_${digits}`,
    object: 'response',
    created_at: identity.createdSeconds,
    status,
    error,
    incomplete_details: incomplete === null ? null : { reason: incomplete },
    model,
    output: items.list(openItems()),
    ...members,
    usage,
  });

  const openText = (): { events: string; message: OpenText } => {
    if (open?.kind === 'message') return { events: '', message: open };
    const ended = endOpen() + calls.endWhole();
    const message: OpenText = { kind: 'message', ...items.next('msg'), parts: [], part: null };
    open = message;
    return { events: ended + added(message.index, toMessage(message, 'in_progress')), message };
  };

  const openPart = (message: OpenText, type: TextPart['type']): { events: string; part: TextPart } => {
    if (message.part?.type === type) return { events: '', part: message.part };
    const ended = endPart(message);
    const part = { type, text: '' };
    message.part = part;
    return { events: ended + event('response.content_part.added', { ...partPlace(message), part: toPart(part) }), part };
  };

  const endPart = (message: OpenText): string => {
    const { part } = message;
    if (part === null) return '';
    const place = partPlace(message);
    const whole = toPart(part);
    const text = part.type === 'refusal' ? { refusal: part.text } : { text: part.text, logprobs: [] };
    message.parts.push(whole);
    message.part = null;
    return event(`response.${part.type}.done`, { ...place, ...text }) + event('response.content_part.done', { ...place, part: whole });
  };

  const addText = (type: TextPart['type'], piece: string): string => {
    if (piece === '') return '';
    const { events: opened, message } = openText();
    const { events, part } = openPart(message, type);
    part.text += piece;
    const delta = { ...partPlace(message), delta: piece, ...(type === 'refusal' ? {} : { logprobs: [] }) };
    return opened + events + event(`response.${type}.delta`, delta);
  };

  const openReasoning = (): { events: string; reasoning: OpenReasoning } => {
    if (open?.kind === 'reasoning') return { events: '', reasoning: open };
    const ended = endOpen() + calls.endWhole();
    const reasoning: OpenReasoning = { kind: 'reasoning', ...items.next('rs'), text: '' };
    open = reasoning;
    return { events: ended + added(reasoning.index, toReasoning(reasoning)), reasoning };
  };

  /**
   * Ends the reasoning, even if it had no text. `sealed` is the encrypted content that the caller has to send back with
   * its next request. Null if there's nothing to send back.
   */
  const endReasoning = (sealed: string | null): string => {
    const { events, reasoning } = openReasoning();
    open = null;
    const { index, text } = reasoning;
    const item = { ...toReasoning(reasoning), ...(sealed === null ? {} : { encrypted_content: sealed }) };
    if (text === '') return events + done(index, item);
    const place = summaryPlace(reasoning);
    const ended = event('response.reasoning_summary_text.done', { ...place, text });
    const part = event('response.reasoning_summary_part.done', { ...place, part: { type: 'summary_text', text } });
    return events + ended + part + done(index, item);
  };

  const endOpen = (): string => {
    if (open === null) return '';
    if (open.kind === 'reasoning') return endReasoning(null);
    const message = open;
    open = null;
    // A response that was cut off ends in the middle of its last message, so that message is incomplete as well.
    return endPart(message) + done(message.index, toMessage(message, incomplete === null ? 'completed' : 'incomplete'));
  };

  /** Adds an empty message, because every response needs at least one. */
  const emptyMessage = (): string => {
    const { events, message } = openText();
    return events + openPart(message, 'output_text').events + endOpen();
  };

  return {
    /** Starts the response. `vendorModel` is the vendor's name for the model, or null if the vendor didn't send one. */
    start(vendorModel: string | null): string {
      if (hasStarted) return '';
      hasStarted = true;
      model = vendorModel ?? model;
      return event('response.created', { response: response() }) + event('response.in_progress', { response: response() });
    },
    text: (piece: string): string => addText('output_text', piece),
    refusal: (piece: string): string => addText('refusal', piece),
    reasoning(piece: string): string {
      if (piece === '') return '';
      const { events, reasoning } = openReasoning();
      const place = summaryPlace(reasoning);
      const part = { type: 'summary_text', text: '' };
      const opened = reasoning.text === '' ? event('response.reasoning_summary_part.added', { ...place, part }) : '';
      reasoning.text += piece;
      return events + opened + event('response.reasoning_summary_text.delta', { ...place, delta: piece });
    },
    endReasoning,
    isReasoning: (): boolean => open?.kind === 'reasoning',
    startCall: (...call: Parameters<typeof calls.start>): string => endOpen() + calls.endWhole() + calls.start(...call),
    callArguments: calls.add,
    endCall: calls.end,
    /** Ends the response. `incomplete` says why the response is incomplete, and is null for a complete one. */
    finish(end: { readonly incomplete: IncompleteReason | null; readonly usage: JsonObject | null }): string {
      ({ incomplete, usage } = end);
      const ended = endOpen() + calls.endAll();
      const empty = items.count() === 0 && incomplete === null ? emptyMessage() : '';
      status = incomplete === null ? 'completed' : 'incomplete';
      return ended + empty + event(`response.${status}`, { response: response() });
    },
    fail(message: string, tokens: JsonObject | null): string {
      status = 'failed';
      usage = tokens;
      error = { code: 'server_error', message };
      return event('response.failed', { response: response() });
    },
    response,
  };
}

function toOpenItem(open: OpenText | OpenReasoning): JsonObject {
  if (open.kind === 'reasoning') return toReasoning(open);
  const { part, parts } = open;
  return toMessage({ ...open, parts: part === null ? parts : [...parts, toPart(part)] }, 'incomplete');
}

function toMessage({ id, parts }: OpenText, status: string): JsonObject {
  return { id, type: 'message', status, role: 'assistant', content: [...parts] };
}

function toPart({ type, text }: TextPart): JsonObject {
  return type === 'refusal' ? { type, refusal: text } : { type, text, annotations: [], logprobs: [] };
}

function partPlace({ id, index, parts }: OpenText): JsonObject {
  return { item_id: id, output_index: index, content_index: parts.length };
}

function toReasoning({ id, text }: OpenReasoning): JsonObject {
  return { id, type: 'reasoning', summary: text === '' ? [] : [{ type: 'summary_text', text }] };
}

function summaryPlace({ id, index }: OpenReasoning): JsonObject {
  return { item_id: id, output_index: index, summary_index: 0 };
}
