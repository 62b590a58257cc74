/**
 * Vendor responses for translation tests. Each one exists in both dialects, as JSON and as a stream that is split into
 * random chunks.
 */
import fc from 'fast-check';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import type { Tokens } from '../../../src/core/pricing.ts';
import { streamOf } from '../events.ts';

/** What a response contains. */
export interface Said {
  readonly id: string;
  readonly model: string;
  /** In the dialect that has blocks, the text is split at random. */
  readonly text: string;
  readonly thinking: string;
  /** Encrypted thinking that comes next. Only set if the chat vendor's format supports it. */
  readonly sealed: string;
  /** How a chat vendor sends reasoning. */
  readonly form: 'reasoning_content' | 'reasoning' | 'reasoning_details' | 'thinking_blocks';
  readonly tools: readonly { readonly id: string; readonly name: string; readonly arguments: object }[];
  readonly end: 'stop' | 'length' | 'filtered';
  readonly tokens: Tokens;
  /** The lengths of the vendor's chunks. When we reach the last one, we start over with the first. */
  readonly cuts: readonly number[];
  /** If true, the deltas of tool calls are interleaved (chat only). */
  readonly interleaved: boolean;
  /** If true, the vendor sends token counts, and ids of tool calls. */
  readonly hasToolIds: boolean;
  readonly hasUsage: boolean;
}

const count = fc.nat(100_000);
const name = fc.stringMatching(/^[a-z_]{1,12}$/);
const jsonValue = fc.jsonValue({ maxDepth: 2 }).map((value) => parseJsonOrThrow(JSON.stringify(value)));

export const said: fc.Arbitrary<Said> = fc.record({
  id: fc.stringMatching(/^[a-z0-9]{8}$/),
  model: name,
  text: fc.oneof(fc.constant(''), fc.string({ unit: 'grapheme', maxLength: 40 })),
  thinking: fc.oneof(fc.constant(''), fc.string({ maxLength: 20 })),
  sealed: fc.constantFrom('', 'ZGF0YQ=='),
  form: fc.constantFrom('reasoning_content', 'reasoning', 'reasoning_details', 'thinking_blocks'),
  tools: fc.uniqueArray(
    fc.record({ id: fc.stringMatching(/^t[a-z0-9]{5}$/), name, arguments: fc.dictionary(fc.string(), jsonValue, { maxKeys: 3 }) }),
    {
      maxLength: 3,
      selector: ({ id }) => id,
    },
  ),
  end: fc.constantFrom('stop', 'length', 'filtered'),
  tokens: fc.record({ input: count, cachedInput: count, cacheWrite: count, cacheWrite1h: count, output: count }),
  cuts: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 }),
  interleaved: fc.boolean(),
  hasToolIds: fc.boolean(),
  hasUsage: fc.boolean(),
});

const finishReasons = { stop: 'stop', length: 'length', filtered: 'content_filter' } as const;
const stopReasons = { stop: 'end_turn', length: 'max_tokens', filtered: 'refusal' } as const;

function cut(text: string, cuts: readonly number[]): string[] {
  const pieces: string[] = [];
  for (let at = 0, turn = 0; at < text.length; turn += 1) {
    const length = cuts[turn % cuts.length] ?? 1;
    pieces.push(text.slice(at, at + length));
    at += length;
  }
  return pieces;
}

function finishReason({ end, tools }: Said): string {
  return end === 'stop' && tools.length > 0 ? 'tool_calls' : finishReasons[end];
}

/** Chat vendors don't report cache writes. */
function chatUsage({ input, cachedInput, output }: Tokens): object {
  const prompt = input + cachedInput;
  const details = { prompt_tokens_details: { cached_tokens: cachedInput, audio_tokens: 0 } };
  return { prompt_tokens: prompt, completion_tokens: output, total_tokens: prompt + output, ...details };
}

function chatCall({ hasToolIds }: Said, tool: Said['tools'][number]): object {
  const fn = { name: tool.name, arguments: JSON.stringify(tool.arguments) };
  return { ...(hasToolIds ? { id: tool.id } : {}), type: 'function', function: fn };
}

const signature = 'c2ln';
const format = 'anthropic-claude-v1';

/** Returns the thinking blocks of a response in the messages dialect. */
export function thinkingBlocks({ thinking, sealed }: Said): object[] {
  return [
    ...(thinking === '' ? [] : [{ type: 'thinking', thinking, signature }]),
    ...(sealed === '' ? [] : [{ type: 'redacted_thinking', data: sealed }]),
  ];
}

/** Returns the thinking blocks in the format of the gateway's chat responses. */
export function reasoningDetails({ thinking, sealed }: Said): object[] {
  const entries = [
    ...(thinking === '' ? [] : [{ type: 'reasoning.text', text: thinking, signature, format }]),
    ...(sealed === '' ? [] : [{ type: 'reasoning.encrypted', data: sealed, format }]),
  ];
  return entries.map(({ type, ...entry }, index) => ({ type, index, ...entry }));
}

/** True if the chat vendor sends signatures and encrypted thinking. */
export function isSigned({ form }: Said): boolean {
  return form === 'reasoning_details' || form === 'thinking_blocks';
}

function chatReasoning(answer: Said): object {
  const { thinking, form } = answer;
  const name = form === 'reasoning' || form === 'reasoning_details' ? 'reasoning' : 'reasoning_content';
  const text = thinking === '' ? {} : { [name]: thinking };
  if (!isSigned(answer)) return text;
  const list = form === 'reasoning_details' ? reasoningDetails(answer) : thinkingBlocks(answer);
  return list.length === 0 ? text : { ...text, [form]: list };
}

function chatReasoningDeltas(answer: Said): object[] {
  const { thinking, sealed, form, cuts } = answer;
  const pieces = cut(thinking, cuts);
  if (form === 'reasoning_content' || form === 'reasoning') return pieces.map((piece) => ({ [form]: piece }));
  if (form === 'thinking_blocks') {
    const block = (members: object): object => ({ thinking_blocks: [{ type: 'thinking', thinking: '', signature: null, ...members }] });
    return [
      ...pieces.map((piece) => ({ reasoning_content: piece, ...block({ thinking: piece }) })),
      ...(thinking === '' ? [] : [{ reasoning_content: '', ...block({ signature }) }]),
      ...(sealed === '' ? [] : [{ thinking_blocks: [{ type: 'redacted_thinking', data: sealed }] }]),
    ];
  }
  const detail = (members: object): object => ({ reasoning_details: [{ type: 'reasoning.text', index: 0, ...members }] });
  return [
    ...pieces.map((piece) => ({ reasoning: piece, ...detail({ text: piece }) })),
    ...(thinking === '' ? [] : [detail({ signature, format })]),
    ...(sealed === ''
      ? []
      : [{ reasoning_details: [{ type: 'reasoning.encrypted', index: thinking === '' ? 0 : 1, data: sealed, format }] }]),
  ];
}

export function chatAnswer(answer: Said): object {
  const { id, model, text, tools, hasUsage, tokens } = answer;
  const message = {
    role: 'assistant',
    content: text === '' && tools.length > 0 ? null : text,
    ...chatReasoning(answer),
    ...(tools.length > 0 ? { tool_calls: tools.map((tool) => chatCall(answer, tool)) } : {}),
  };
  return {
    id,
    object: 'chat.completion',
    created: 1,
    model,
    choices: [{ index: 0, message, finish_reason: finishReason(answer) }],
    ...(hasUsage ? { usage: chatUsage(tokens) } : {}),
  };
}

export function chatStream(answer: Said): string {
  const { id, model, text, tools, cuts, hasUsage, tokens } = answer;
  const head = { id, object: 'chat.completion.chunk', created: 1, model };
  const chunk = (delta: object, reason: string | null = null): object => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason: reason }],
  });
  const calls = tools.map((tool, index) => [
    { index, ...chatCall(answer, { ...tool, arguments: {} }), function: { name: tool.name, arguments: '' } },
    ...cut(JSON.stringify(tool.arguments), cuts).map((piece) => ({ index, function: { arguments: piece } })),
  ]);
  const longest = Math.max(0, ...calls.map((call) => call.length));
  const turns = Array.from({ length: longest }, (_, turn) => calls.flatMap((call) => call.slice(turn, turn + 1)));
  return streamOf(
    chunk({ role: 'assistant', content: '' }),
    ...chatReasoningDeltas(answer).map((delta) => chunk(delta)),
    ...cut(text, cuts).map((piece) => chunk({ content: piece })),
    ...(answer.interleaved ? turns : calls).flat().map((call) => chunk({ tool_calls: [call] })),
    chunk({}, finishReason(answer)),
    ...(hasUsage ? [{ ...head, choices: [], usage: chatUsage(tokens) }] : []),
    '[DONE]',
  );
}

function messagesUsage({ input, cachedInput, cacheWrite, cacheWrite1h, output }: Tokens): object {
  return {
    input_tokens: input,
    cache_creation_input_tokens: cacheWrite + cacheWrite1h,
    cache_read_input_tokens: cachedInput,
    cache_creation: { ephemeral_5m_input_tokens: cacheWrite, ephemeral_1h_input_tokens: cacheWrite1h },
    output_tokens: output,
  };
}

function messagesBlocks(answer: Said): { start: object; whole: object; deltas: object[] }[] {
  const { text, thinking, sealed, tools, cuts, hasToolIds } = answer;
  const ofThinking = {
    start: { type: 'thinking', thinking: '', signature: '' },
    whole: { type: 'thinking', thinking, signature },
    deltas: [...cut(thinking, cuts).map((piece) => ({ type: 'thinking_delta', thinking: piece })), { type: 'signature_delta', signature }],
  };
  const redacted = { type: 'redacted_thinking', data: sealed };
  const ofSealed = { start: redacted, whole: redacted, deltas: [] };
  // Two blocks of text, like vendors send them before and after a citation.
  const half = Math.floor(text.length / 2);
  const ofText = [text.slice(0, half), text.slice(half)].map((part) => ({
    start: { type: 'text', text: '' },
    whole: { type: 'text', text: part },
    deltas: cut(part, cuts).map((piece) => ({ type: 'text_delta', text: piece })),
  }));
  const ofTools = tools.map((tool) => {
    const start = { type: 'tool_use', ...(hasToolIds ? { id: tool.id } : {}), name: tool.name, input: {} };
    // A tool without arguments may send a single empty delta.
    const pieces = Object.keys(tool.arguments).length === 0 ? [''] : ['', ...cut(JSON.stringify(tool.arguments), cuts)];
    return {
      start,
      whole: { ...start, input: tool.arguments },
      deltas: pieces.map((piece) => ({ type: 'input_json_delta', partial_json: piece })),
    };
  });
  return [...(thinking === '' ? [] : [ofThinking]), ...(sealed === '' ? [] : [ofSealed]), ...(text === '' ? [] : ofText), ...ofTools];
}

function stopReason({ end, tools }: Said): string {
  return end === 'stop' && tools.length > 0 ? 'tool_use' : stopReasons[end];
}

export function messagesAnswer(answer: Said): object {
  const content = messagesBlocks(answer).map(({ whole }) => whole);
  const ends = {
    stop_reason: stopReason(answer),
    stop_sequence: null,
    ...(answer.hasUsage ? { usage: messagesUsage(answer.tokens) } : {}),
  };
  return { id: answer.id, type: 'message', role: 'assistant', model: answer.model, content, ...ends };
}

export function messagesStream(answer: Said): string {
  const { id, model, tokens, hasUsage } = answer;
  const message = { id, type: 'message', role: 'assistant', model, content: [], stop_reason: null, stop_sequence: null };
  const blocks = messagesBlocks(answer).flatMap(({ start, deltas }, index) => [
    { type: 'content_block_start', index, content_block: start },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]);
  return streamOf(
    { type: 'message_start', message: { ...message, ...(hasUsage ? { usage: { ...messagesUsage(tokens), output_tokens: 1 } } : {}) } },
    { type: 'ping' },
    ...blocks,
    {
      type: 'message_delta',
      delta: { stop_reason: stopReason(answer), stop_sequence: null },
      ...(hasUsage ? { usage: { output_tokens: tokens.output } } : {}),
    },
    { type: 'message_stop' },
  );
}
