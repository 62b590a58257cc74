/** The callers' side for tests of the translation: streams are read by the vendors' own SDKs. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { createSseParser } from '../../../src/core/sse.ts';
import type { StreamTranslator } from '../../../src/dialects/translate/stream.ts';

/** What a caller makes of an answer, in a form in which plain and streamed answers can be compared. */
export interface Received {
  readonly id: unknown;
  readonly model: unknown;
  /** Texts and tool calls in order; neighbouring texts are one. */
  readonly blocks: readonly unknown[];
  readonly end: unknown;
  readonly usage: unknown;
}

/** Everything the translator gives for the stream `text`, whose bytes come in chunks of these sizes. */
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
  return readChatResponse(await stream.finalChatCompletion());
}

export async function readMessagesStream(text: string): Promise<Received> {
  const client = new Anthropic({ apiKey: 'k', baseURL: 'http://vendor.example', fetch: answering(text), maxRetries: 0 });
  const stream = client.messages.stream({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] });
  return readMessagesResponse(await stream.finalMessage());
}

// The vendors' types say more than their answers do, so answers are read as what they are: JSON.
interface ChatJson {
  id: string;
  model: string;
  choices: {
    message: { content: string | null; tool_calls?: { id: string; function: { name: string; arguments: string } }[] };
    finish_reason: string;
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number; prompt_tokens_details?: { cached_tokens: number } };
}

interface MessagesJson {
  id: string;
  model: string;
  content: { type: string; text?: string; id?: string; name?: string; input?: unknown }[];
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
  return { id, model, blocks: [...(text === null ? [] : [text]), ...calls], end: choice?.finish_reason, usage: usage ?? null };
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
  return { id, model, blocks, end, usage: { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } };
}
