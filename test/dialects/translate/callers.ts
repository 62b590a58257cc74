/** The callers in translation tests. They read the streams with the vendors' own SDKs. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { createSseParser } from '../../../src/core/sse.ts';
import type { StreamTranslator } from '../../../src/dialects/translate/stream.ts';

/** What a caller reads from a response. You can compare this for plain and streamed responses. */
export interface Received {
  readonly id: unknown;
  readonly model: unknown;
  /** Text and tool calls in order. Consecutive text is merged. */
  readonly blocks: readonly unknown[];
  /** The reasoning as text, and its signed and encrypted parts as blocks of the messages dialect. */
  readonly reasoning: { readonly text: string; readonly signed: readonly unknown[] };
  readonly end: unknown;
  readonly usage: unknown;
}

/**
 * Returns everything that the translator outputs for the stream `text` if the bytes arrive in chunks of these sizes.
 */
export function translateStream(translator: StreamTranslator, text: string, sizes: readonly number[] = [text.length * 4 + 1]): string {
  const parser = createSseParser();
  const bytes = Buffer.from(text);
  let out = '';
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    for (const event of parser.push(bytes.subarray(at, at + size)).events) out += translator.push(event);
    at += size;
  }
  for (const event of parser.end().events) out += translator.push(event);
  return out + translator.end();
}

function answering(text: string): () => Promise<Response> {
  return async () => new Response(text, { headers: { 'content-type': 'text/event-stream' } });
}

export async function readChatStream(text: string): Promise<Received> {
  const client = new OpenAI({ apiKey: 'k', baseURL: 'http://vendor.example/v1', fetch: answering(text), maxRetries: 0 });
  const stream = client.chat.completions.stream({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
  // If the SDK doesn't know a field, it only keeps the field's last delta.
  const chunks = createSseParser().push(Buffer.from(text)).events;
  const deltas: Reasoned[] = chunks.flatMap(({ data }) => (data === '[DONE]' ? [] : (JSON.parse(data || '{}').choices?.[0]?.delta ?? [])));
  return { ...readChatResponse(await stream.finalChatCompletion()), reasoning: joinReasoning(deltas) };
}

export async function readMessagesStream(text: string): Promise<Received> {
  const client = new Anthropic({ apiKey: 'k', baseURL: 'http://vendor.example', fetch: answering(text), maxRetries: 0 });
  const stream = client.messages.stream({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] });
  return readMessagesResponse(await stream.finalMessage());
}

/** The reasoning in a message or delta of the chat dialect, in all formats. */
interface Reasoned {
  reasoning_content?: string | null;
  reasoning?: string | null;
  reasoning_details?: { type: string; text?: string; signature?: string; data?: string; index: number }[];
  thinking_blocks?: { type: string; thinking?: string; signature?: string | null; data?: string }[];
}

function joinReasoning(deltas: readonly Reasoned[]): Received['reasoning'] {
  const text = deltas.map((delta) => delta.reasoning_content ?? delta.reasoning ?? '').join('');
  const byIndex = new Map<number, { thinking: string; signature: string; data: string }>();
  let index = 0;
  const add = (at: number, entry: { thinking?: string; signature?: string | null; data?: string }): void => {
    const open = byIndex.get(at) ?? { thinking: '', signature: '', data: '' };
    byIndex.set(at, {
      thinking: open.thinking + (entry.thinking ?? ''),
      signature: open.signature + (entry.signature ?? ''),
      data: open.data + (entry.data ?? ''),
    });
  };
  for (const { reasoning_details: details = [], thinking_blocks: blocks = [] } of deltas) {
    for (const { text: thinking, ...entry } of details) add(entry.index, { ...entry, ...(thinking !== undefined && { thinking }) });
    for (const block of blocks) {
      add(index, block);
      if (block.signature || block.data) index += 1;
    }
  }
  const blocks = [...byIndex.values()].map(({ thinking, signature, data }) =>
    data === '' ? { type: 'thinking', thinking, signature } : { type: 'redacted_thinking', data },
  );
  return { text, signed: blocks.filter(isSignedBlock) };
}

function isSignedBlock({ type, signature }: { type: string; signature?: string }): boolean {
  return type === 'redacted_thinking' || (type === 'thinking' && Boolean(signature));
}

// The types of the vendors' SDKs promise more than there is in responses, so we read them as plain JSON.
interface ChatJson {
  id: string;
  model: string;
  choices: {
    message: Reasoned & { content: string | null; tool_calls?: { id: string; function: { name: string; arguments: string } }[] };
    finish_reason: string;
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number; prompt_tokens_details?: { cached_tokens: number } };
}

interface MessagesJson {
  id: string;
  model: string;
  content: { type: string; text?: string; thinking?: string; signature?: string; id?: string; name?: string; input?: unknown }[];
  stop_reason: string;
  usage?: Record<string, unknown>;
}

export function readChatResponse(answer: unknown): Received {
  const { id, model, choices, usage }: ChatJson = JSON.parse(JSON.stringify(answer));
  const [choice] = choices;
  const calls = (choice?.message.tool_calls ?? []).map((call) => ({
    call: call.id,
    name: call.function.name,
    arguments: JSON.parse(call.function.arguments),
  }));
  const text = choice?.message.content || null;
  const blocks = [...(text === null ? [] : [text]), ...calls];
  const reasoning = joinReasoning(choice ? [choice.message] : []);
  return { id, model, blocks, reasoning, end: choice?.finish_reason, usage: usage ?? null };
}

export function readMessagesResponse(answer: unknown): Received {
  const { id, model, content, stop_reason: end, usage }: MessagesJson = JSON.parse(JSON.stringify(answer));
  const blocks: unknown[] = [];
  for (const block of content) {
    if (block.type === 'tool_use') blocks.push({ call: block.id, name: block.name, arguments: block.input });
    else if (block.type === 'text') {
      const last = blocks.at(-1);
      if (typeof last === 'string') blocks[blocks.length - 1] = last + (block.text ?? '');
      else blocks.push(block.text);
    }
  }
  const { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } = usage ?? {};
  const reasoning = { text: content.map(({ thinking = '' }) => thinking).join(''), signed: content.filter(isSignedBlock) };
  return {
    id,
    model,
    blocks,
    reasoning,
    end,
    usage: { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens },
  };
}
