/**
 * The cases of the client matrix. Each case has a model whose name scripts the vendor's response, and says what a
 * client has to see. A driver program makes the call in the way that is usual for its client, and prints what the
 * client returned or threw.
 */
import { strict as assert } from 'node:assert';

/** The vendors of the matrix, named after their dialects. */
export const vendors = ['chat', 'messages'] as const;
export type Vendor = (typeof vendors)[number];

/** What a driver prints about one case. It only has the members that the case asks for. */
export interface Seen {
  readonly text?: string;
  /** The number of text pieces that a stream delivered. */
  readonly pieces?: number;
  readonly tokens?: { readonly input: number; readonly output: number };
  readonly calls?: readonly { readonly name: string; readonly input: unknown }[];
  readonly value?: unknown;
  readonly ids?: readonly string[];
  readonly count?: number;
  /** What the client shows of the model's reasoning. */
  readonly reasoning?: string;
  /** The client raised its own error class for a prompt that is too long. */
  readonly overflow?: boolean;
  /** The client neither returned nor threw. */
  readonly hangs?: boolean;
  /** The class and message of what the client threw. */
  readonly error?: { readonly name: string; readonly message: string; readonly status?: number | null };
}

interface Case {
  /** The name of the column in docs/clients.md. */
  readonly title: string;
  /**
   * The vendor's script (see test/support/scripted-vendor/scripts.ts). We append `+mine`, so that each client has its
   * own model.
   */
  readonly script: string;
  readonly check: (seen: Seen) => void;
}

const question = 'What is the capital of Norway?';
const answer = `You said: ${question}`;
export const weather = { name: 'get_weather', input: { city: 'Oslo', days: 1 } };
/** What the memory model learns. */
const fact = 'The user likes Oslo';
const time = { name: 'get_time', input: { zone: 'Oslo' } };

/** The data that drivers send. */
export const samples = {
  question,
  city: 'Oslo',
  /**
   * The timeout of a client whose vendor doesn't respond. On a busy machine, the request takes seconds to get there.
   */
  timeoutMs: 8_000,
  /** A PNG of one pixel. */
  image: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  tools: [
    {
      name: 'get_weather',
      description: 'Weather of a city',
      parameters: {
        type: 'object',
        properties: { city: { type: 'string' }, days: { type: 'integer' } },
        required: ['city', 'days'],
        additionalProperties: false,
      },
    },
    {
      name: 'get_time',
      description: 'Time of a zone',
      parameters: { type: 'object', properties: { zone: { type: 'string' } }, required: ['zone'], additionalProperties: false },
    },
  ],
} as const;

export const cases = {
  plain: {
    title: 'plain',
    script: 'echo',
    check: ({ text, tokens }) => {
      assert.equal(text, answer);
      if (tokens) assert.ok(tokens.input > 0 && tokens.output > 0, `tokens: ${JSON.stringify(tokens)}`);
    },
  },
  stream: {
    title: 'stream',
    script: 'echo',
    check: ({ text, pieces = 0 }) => {
      assert.equal(text, answer);
      assert.ok(pieces > 2, `${pieces} pieces`);
    },
  },
  // The driver returns the result of the tool to the model.
  tools: { title: 'tools', script: 'tool', check: checkTools([weather], 'The tool said: sunny') },
  'stream-tools': { title: 'streamed tools', script: 'tool', check: checkTools([weather], 'The tool said: sunny') },
  'parallel-tools': { title: 'parallel tools', script: 'tools-parallel', check: checkTools([weather, time], 'The tool said: ') },
  structured: { title: 'structured output', script: 'echo', check: ({ value }) => assert.deepEqual(value, weather.input) },
  images: { title: 'images', script: 'echo', check: ({ text }) => assert.equal(text, 'You said: Inspect (and sent 1 attachment)') },
  errors: {
    title: 'errors',
    script: 'refuse-422',
    check: ({ error, text }) => {
      assert.ok(error, `no error but ${text}`);
      assert.match(error.message, /The request is not one that/);
    },
  },
  // The gateway has no other model to try, so the client has to repeat the request itself.
  retries: { title: 'retries', script: 'fail-once-500', check: ({ text }) => assert.equal(text, answer) },
  // Clients with an error class of their own, which lets frameworks shorten the conversation.
  overflow: {
    title: 'context overflow',
    script: 'window-8',
    check: ({ overflow, error, text }) => assert.ok(overflow, `not recognized: ${error ? `${error.name}: ${error.message}` : text}`),
  },
  reasoning: {
    title: 'reasoning',
    script: 'thinks',
    check: ({ reasoning, text }) => {
      assert.equal(reasoning, `The user said: ${question}`);
      assert.equal(text, answer);
    },
  },
  // A conversation in which the client sends the id of the first response instead of its text.
  references: { title: 'items by id', script: 'echo', check: ({ text }) => assert.equal(text, answer) },
  memory: {
    title: 'memory',
    script: `say-${Buffer.from(JSON.stringify({ memory: [{ text: fact }] })).toString('base64url')}`,
    check: ({ text }) => assert.equal(text, fact),
  },
  models: {
    title: 'models',
    script: 'echo',
    check: ({ ids = [] }) => assert.ok(ids.includes('chat/echo') && ids.includes('messages/echo'), `${ids}`),
  },
  'count-tokens': { title: 'count tokens', script: 'echo', check: ({ count = 0 }) => assert.ok(count > 0, `${count} tokens`) },
} as const satisfies Record<string, Case>;

export type CaseName = keyof typeof cases;
/** The cases, and two more for the table of failures: a call with a short timeout, and streamed structured output. */
export type DriverCase = CaseName | 'timeout' | 'partial';
export const caseNames = Object.keys(cases) as readonly CaseName[];

function checkTools(expected: Seen['calls'], said: string): Case['check'] {
  return ({ calls, text = '' }) => {
    assert.deepEqual(calls, expected);
    assert.ok(text.includes(said), `the text after the results: ${text}`);
  };
}
