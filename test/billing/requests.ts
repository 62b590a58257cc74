/** Builds the bodies of the requests that callers send in a run. */
import { markOf } from './vendor.ts';

export type CallRoute = 'chat' | 'messages' | 'responses' | 'embeddings' | 'rerank' | 'images';

export interface RequestOptions {
  readonly route: CallRoute;
  /** The model for chat, messages and responses. The other routes have their own models. */
  readonly model: string;
  readonly mark: string;
  readonly stream: boolean;
  readonly promptBytes: number;
  readonly images: number;
  /**
   * `max_completion_tokens` and `max_tokens` on chat. Messages and responses have only one limit and use the first
   * that is set.
   */
  readonly limits: readonly [unknown, unknown];
  readonly choices: number;
  readonly isBackground: boolean;
  readonly webSearch: boolean;
  /** If true, the vendor may summarize a long prompt before it responds. */
  readonly allowsCompaction: boolean;
  readonly serviceTier: string | null;
  readonly asksForCache: '5m' | '1h' | null;
  readonly usageInStream: boolean;
  /** Index of the unusual members to add to the body. Null adds nothing. */
  readonly unusual: number | null;
}

type Body = Readonly<Record<string, unknown>>;

const paths: Readonly<Record<CallRoute, string>> = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
  images: '/v1/images/generations',
};

/** A one-pixel PNG is enough, because vendors don't bill images by their size in bytes. */
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

export function pathOf(route: CallRoute): string {
  return paths[route];
}

/** Undefined members are left out when the body is serialized. */
export function createBody(options: RequestOptions): Body {
  const body = bodies[options.route](options);
  return options.unusual === null ? body : { ...body, ...unusualMembers(options.unusual) };
}

const bodies: Readonly<Record<CallRoute, (options: RequestOptions) => Body>> = {
  chat: (options) => ({
    model: options.model,
    stream: options.stream,
    ...(options.stream && options.usageInStream && { stream_options: { include_usage: true } }),
    messages: [{ role: 'user', content: [{ type: 'text', text: promptOf(options) }, ...listOf(options.images, chatImage)] }],
    max_completion_tokens: options.limits[0],
    max_tokens: options.limits[1],
    ...(options.choices > 1 && { n: options.choices }),
    ...tierOf(options),
  }),
  messages: (options) => ({
    model: options.model === 'alpha/mini' ? 'gamma/deep' : options.model,
    stream: options.stream,
    max_tokens: options.limits.find((limit) => limit !== undefined) ?? 1_000,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: promptOf(options), ...(options.asksForCache && { cache_control: cacheControl(options.asksForCache) }) },
          ...listOf(options.images, messagesImage),
        ],
      },
    ],
    ...(options.allowsCompaction && options.model === 'gamma/deep' && { context_management: { edits: [{ type: 'compact_20260112' }] } }),
    ...(options.webSearch &&
      options.model === 'gamma/deep' && { tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 4 }] }),
  }),
  responses: (options) => ({
    model: options.model,
    stream: options.stream,
    input: [{ role: 'user', content: [{ type: 'input_text', text: promptOf(options) }, ...listOf(options.images, responsesImage)] }],
    max_output_tokens: options.limits.find((limit) => limit !== undefined),
    ...(options.isBackground && { background: true }),
    ...(options.webSearch && options.model.startsWith('alpha/') && { tools: [{ type: 'web_search' }], max_tool_calls: 4 }),
    ...tierOf(options),
  }),
  embeddings: (options) => ({ model: 'alpha/vectors', input: [promptOf(options), 'another text'] }),
  rerank: (options) => ({
    model: options.promptBytes % 2 === 0 ? 'alpha/order' : 'alpha/sort',
    query: promptOf(options),
    documents: Array.from({ length: 1 + (options.promptBytes % 230) }, (_, n) => `document ${n}`),
  }),
  images: (options) => ({
    model: 'alpha/picture',
    prompt: promptOf(options),
    ...(options.choices > 1 && { n: options.choices }),
  }),
};

function promptOf({ mark, promptBytes }: RequestOptions): string {
  return `${markOf(mark)} ${'lorem ipsum '.repeat(Math.ceil(promptBytes / 12))}`;
}

function tierOf({ serviceTier }: RequestOptions): Body {
  return serviceTier === null ? {} : { service_tier: serviceTier };
}

function cacheControl(ttl: '5m' | '1h'): Body {
  return ttl === '5m' ? { type: 'ephemeral' } : { type: 'ephemeral', ttl };
}

function listOf(count: number, create: () => Body): Body[] {
  return Array.from({ length: count }, create);
}

function chatImage(): Body {
  return { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } };
}

function messagesImage(): Body {
  return { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } };
}

function responsesImage(): Body {
  return { type: 'input_image', image_url: `data:image/png;base64,${pixel}` };
}

/** Returns members that vendors ignore but that might trip up a gateway. */
function unusualMembers(index: number): Body {
  const deep = JSON.parse(`${'{"a":'.repeat(2_000)}1${'}'.repeat(2_000)}`) as object;
  const members: Body[] = [
    { n: null, max_tokens: null },
    { metadata: { note: 'x'.repeat(500) }, user: 'someone' },
    { reasoning_effort: 'high', verbosity: 'low' },
    { unknown_member: deep },
    { stop: null, seed: 0, logit_bias: {} },
    { store: true, prediction: null },
  ];
  return members[index % members.length] ?? {};
}
