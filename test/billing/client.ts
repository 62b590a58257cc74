/** Sends a call to a gateway and records the response. If asked to, disconnects in the middle of it. */
import { request } from 'node:http';
import { createSseParser } from '../../src/core/sse.ts';

/**
 * When the caller disconnects. `finish` is the moment when every choice has ended, before the vendor's token counts
 * arrive.
 */
export type Leaving = { readonly at: 'byte' | 'ms'; readonly count: number } | { readonly at: 'finish' } | null;

export interface SentRequest {
  readonly url: string;
  readonly key: string;
  readonly path: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly leaving: Leaving;
  /** How many choices have to end before the response counts as finished. */
  readonly choices: number;
}

export interface Received {
  /** Null if the response never started. */
  readonly status: number | null;
  readonly text: string;
  readonly isWhole: boolean;
  readonly hasLeft: boolean;
  /** How many characters of model output arrived, including reasoning and tool call arguments. */
  readonly deliveredCharacters: number;
  /** True if every choice of a stream has ended. Always false for a response without a stream. */
  readonly isFinished: boolean;
}

export function sendCall({ url, key, path, body, headers, leaving, choices }: SentRequest): Promise<Received> {
  return new Promise((resolve) => {
    let status: number | null = null;
    let isStream = false;
    let hasLeft = false;
    let isDone = false;
    let bytes = 0;
    const chunks: Buffer[] = [];
    const reader = createDeltaReader();
    const end = (isWhole: boolean): void => {
      if (isDone) return;
      isDone = true;
      clearTimeout(timer);
      const text = Buffer.concat(chunks).toString();
      const deliveredCharacters = isStream ? reader.characters() : isWhole ? charactersOf(text) : 0;
      resolve({ status, text, isWhole, hasLeft, deliveredCharacters, isFinished: isStream && reader.finished() >= choices });
    };
    const leave = (): void => {
      hasLeft = true;
      sent.destroy();
      end(false);
    };
    const sent = request(
      url + path,
      { method: 'POST', agent: false, headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers } },
      (response) => {
        status = response.statusCode ?? 0;
        isStream = String(response.headers['content-type']).startsWith('text/event-stream');
        response.on('data', (chunk: Buffer) => {
          if (isDone) return;
          const room = leaving?.at === 'byte' ? leaving.count - bytes : Number.POSITIVE_INFINITY;
          const kept = chunk.length > room ? chunk.subarray(0, room) : chunk;
          bytes += kept.length;
          chunks.push(kept);
          if (isStream) reader.read(kept);
          if (kept.length < chunk.length || (leaving?.at === 'byte' && bytes === leaving.count)) leave();
          else if (leaving?.at === 'finish' && reader.finished() >= choices) leave();
        });
        response.on('end', () => end(response.complete));
        response.on('error', () => end(false));
        response.on('close', () => end(false));
      },
    );
    const timer = leaving?.at === 'ms' ? setTimeout(leave, leaving.count) : undefined;
    sent.on('error', () => end(false));
    sent.end(body);
  });
}

/**
 * Counts what a stream delivers in any dialect. It doesn't use the product's stream readers, so that it can check
 * them.
 */
function createDeltaReader() {
  const parser = createSseParser();
  const finished = new Set<unknown>();
  let characters = 0;
  return {
    read(chunk: Buffer): void {
      for (const { data } of parser.push(chunk).events) {
        if (data === '' || data === '[DONE]') continue;
        const event = JSON.parse(data) as Record<string, unknown>;
        for (const choice of asArray(event['choices'])) {
          characters += lengthOf(choice['delta'], deltaMembers);
          if (typeof choice['finish_reason'] === 'string') finished.add(choice['index']);
        }
        if (event['type'] === 'content_block_delta') characters += lengthOf(event['delta'], deltaMembers);
        if (typeof (event['delta'] as { stop_reason?: unknown } | undefined)?.stop_reason === 'string') finished.add(0);
        if (typeof event['delta'] === 'string') characters += event['delta'].length;
      }
    },
    characters: () => characters,
    finished: () => finished.size,
  };
}

const deltaMembers: ReadonlySet<string> = new Set([
  'content',
  'refusal',
  'reasoning',
  'reasoning_content',
  'text',
  'thinking',
  'partial_json',
  'arguments',
]);

/** We skip these members because they repeat reasoning that another member already contains. */
const repeated: ReadonlySet<string> = new Set(['thinking_blocks', 'reasoning_details']);

function charactersOf(text: string): number {
  try {
    const response = JSON.parse(text) as Record<string, unknown>;
    return lengthOf([response['choices'], response['content'], response['output']], deltaMembers);
  } catch {
    return 0;
  }
}

/** Adds up the lengths of all strings in members with these names, at any depth. */
function lengthOf(value: unknown, members: ReadonlySet<string>): number {
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce((sum, [name, member]) => {
    if (repeated.has(name)) return sum;
    if (typeof member !== 'string') return sum + lengthOf(member, members);
    return members.has(name) ? sum + member.length : sum;
  }, 0);
}

function asArray(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? (value as Record<string, unknown>[]) : [];
}
