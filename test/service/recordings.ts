/**
 * The vendor responses that were recorded in `test/fixtures/recordings`, what a caller of either dialect has to get,
 * and a vendor that serves them.
 */
import { readFileSync } from 'node:fs';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

export type RecordedRoute = 'chat' | 'messages' | 'responses' | 'images';

/** What a recorded response says, independent of its dialect. */
export interface Recording {
  readonly route: Exclude<RecordedRoute, 'images'>;
  readonly name: string;
  readonly stream: boolean;
  readonly text: string;
  readonly tools?: readonly { readonly name: string; readonly input: unknown }[];
  /** The finish reason for a chat caller and the stop reason for a messages caller. */
  readonly end: readonly [finishReason: string, stopReason: string];
  readonly tokens: { readonly input: number; readonly cached?: number; readonly written?: number; readonly output: number };
}

const umbrella = "Bergen lies on Norway's west coast — bring an umbrella ☂.";
const weather = { name: 'get_weather', input: { city: 'Bergen' } };
const time = { name: 'get_time', input: { zone: 'Europe/Oslo' } };
const alerts = { name: 'list_alerts', input: {} };
const stop = ['stop', 'end_turn'] as const;
const toolUse = ['tool_calls', 'tool_use'] as const;
const length = ['length', 'max_tokens'] as const;
const filtered = ['content_filter', 'refusal'] as const;
const refusal = "I'm sorry, I can't help with that.";

const plain = { stream: false } as const;
const streamed = { stream: true } as const;

export const recordings: readonly Recording[] = [
  { route: 'chat', name: 'text', ...plain, text: umbrella, end: stop, tokens: { input: 67, cached: 1152, output: 17 } },
  { route: 'chat', name: 'text', ...streamed, text: 'Bergen is rainy ☂.', end: stop, tokens: { input: 67, cached: 1152, output: 6 } },
  {
    ...{ route: 'chat', name: 'tool', ...plain, text: '', end: toolUse, tokens: { input: 88, output: 21 } },
    tools: [{ name: 'get_weather', input: { city: 'Bergen', days: 2 } }],
  },
  {
    ...{ route: 'chat', name: 'parallel-tools', ...plain, text: '', end: toolUse, tokens: { input: 131, output: 58 } },
    tools: [weather, time, alerts],
  },
  {
    ...{ route: 'chat', name: 'parallel-tools', ...streamed, text: '', end: toolUse, tokens: { input: 131, output: 44 } },
    tools: [weather, time],
  },
  { route: 'chat', name: 'refusal', ...plain, text: refusal, end: stop, tokens: { input: 64, output: 11 } },
  { route: 'chat', name: 'refusal', ...streamed, text: refusal, end: stop, tokens: { input: 64, output: 11 } },
  { route: 'chat', name: 'citations', ...plain, text: 'The funicular opened in 1918.', end: stop, tokens: { input: 311, output: 9 } },
  { route: 'chat', name: 'reasoning', ...plain, text: '391', end: stop, tokens: { input: 12, cached: 64, output: 42 } },
  { route: 'chat', name: 'reasoning', ...streamed, text: '391', end: stop, tokens: { input: 12, cached: 64, output: 42 } },
  { route: 'chat', name: 'content-filter', ...plain, text: 'The tale begins', end: filtered, tokens: { input: 41, output: 3 } },
  { route: 'chat', name: 'length', ...plain, text: 'One, two, three,', end: length, tokens: { input: 15, output: 6 } },
  { route: 'chat', name: 'comments', ...streamed, text: 'Hello there', end: stop, tokens: { input: 14, output: 9 } },
  { route: 'chat', name: 'vendor-usage', ...streamed, text: 'Hi!', end: stop, tokens: { input: 36, output: 3 } },
  { route: 'messages', name: 'text', ...plain, text: umbrella, end: stop, tokens: { input: 12, cached: 1152, written: 67, output: 19 } },
  {
    ...{ route: 'messages', name: 'text', ...streamed, text: 'Bergen is rainy ☂.', end: stop },
    tokens: { input: 12, cached: 1152, written: 67, output: 9 },
  },
  {
    ...{ route: 'messages', name: 'tool', ...plain, text: "I'll check the weather.", end: toolUse, tokens: { input: 402, output: 71 } },
    tools: [{ name: 'get_weather', input: { city: 'Bergen', days: 2 } }],
  },
  {
    ...{ route: 'messages', name: 'parallel-tools', ...plain, text: "I'll check both.", end: toolUse, tokens: { input: 455, output: 126 } },
    tools: [weather, time, alerts],
  },
  {
    ...{
      route: 'messages',
      name: 'parallel-tools',
      ...streamed,
      text: "I'll check both.",
      end: toolUse,
      tokens: { input: 455, output: 126 },
    },
    tools: [weather, alerts, time],
  },
  { route: 'messages', name: 'thinking', ...plain, text: '391', end: stop, tokens: { input: 44, output: 58 } },
  { route: 'messages', name: 'thinking', ...streamed, text: '391', end: stop, tokens: { input: 44, output: 58 } },
  {
    ...{ route: 'messages', name: 'citations', ...plain, end: stop, tokens: { input: 611, output: 34 } },
    text: 'According to the guide, the funicular opened in 1918.',
  },
  { route: 'messages', name: 'citations', ...streamed, text: 'It opened in 1918.', end: stop, tokens: { input: 6039, output: 131 } },
  {
    ...{ route: 'messages', name: 'web-search', ...plain, end: stop, tokens: { input: 6039, output: 131 } },
    text: "I'll search for that.It opened in 1918.",
  },
  { route: 'messages', name: 'refusal', ...plain, text: '', end: filtered, tokens: { input: 64, output: 3 } },
  { route: 'messages', name: 'refusal', ...streamed, text: 'I can', end: filtered, tokens: { input: 64, output: 3 } },
  { route: 'messages', name: 'length', ...plain, text: 'One, two, three,', end: length, tokens: { input: 15, output: 6 } },
  {
    ...{ route: 'messages', name: 'stop-sequence', ...plain, text: 'One, two, ', tokens: { input: 18, output: 7 } },
    end: ['stop', 'stop_sequence'],
  },
  { route: 'responses', name: 'text', ...plain, text: 'It opened in 1918.', end: stop, tokens: { input: 55, cached: 256, output: 44 } },
  { route: 'responses', name: 'text', ...streamed, text: 'It opened in 1918.', end: stop, tokens: { input: 55, cached: 256, output: 44 } },
  { route: 'responses', name: 'tool', ...plain, text: '', tools: [weather], end: toolUse, tokens: { input: 90, output: 31 } },
  { route: 'responses', name: 'tool', ...streamed, text: '', tools: [weather], end: toolUse, tokens: { input: 90, output: 31 } },
  { route: 'responses', name: 'refusal', ...plain, text: "I can't help with that.", end: stop, tokens: { input: 64, output: 11 } },
  { route: 'responses', name: 'refusal', ...streamed, text: "I can't help with that.", end: stop, tokens: { input: 64, output: 11 } },
  { route: 'responses', name: 'incomplete', ...streamed, text: 'One, two,', end: length, tokens: { input: 15, output: 6 } },
];

/** The recorded body. */
export function readRecording(route: RecordedRoute, name: string, stream: boolean): Buffer {
  return readFileSync(new URL(`../fixtures/recordings/${route}/${name}.${stream ? 'sse' : 'json'}`, import.meta.url));
}

const routesByPath: Readonly<Record<string, RecordedRoute>> = {
  '/v1/chat/completions': 'chat',
  '/v1/messages': 'messages',
  '/v1/responses': 'responses',
  '/v1/images/generations': 'images',
  // In the artifacts format, the path contains the model.
  '/v1/artifacts': 'images',
};

/**
 * A vendor that serves the recording named in the request's `model`. For errors, the name `error-<status>` sets the
 * status.
 */
export async function startRecordedVendor(): Promise<LocalServer> {
  return startLocalServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { model = 'artifacts', stream } = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    const route = routesByPath[request.url ?? ''] ?? 'chat';
    const status = Number(/^error-(\d{3})$/.exec(model)?.[1] ?? 200);
    const isStream = stream === true && status === 200;
    response.writeHead(status, { 'content-type': isStream ? 'text/event-stream; charset=utf-8' : 'application/json' });
    response.end(readRecording(route, model, isStream));
  });
}
