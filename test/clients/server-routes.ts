/** Calls every route that a server supports as a vendor, through the gateway. */
import { strict as assert } from 'node:assert';
import { samples } from './cases.ts';
import type { TaskRecord } from './record.ts';
import type { Target } from './run-client.ts';
import type { ModelUse, Server } from './servers.ts';

/** Calls every route that the server serves. */
export async function callServer(server: Server, { url, key }: Target): Promise<Omit<TaskRecord, 'recordedOn'>> {
  const results: Record<string, string> = {};
  for (const { title, use, path, provider = 'as-chat', body, check } of [...textCases(), ...otherCases]) {
    const name = server.models[use];
    if (name === undefined) continue;
    const content = body(`${provider}/${name}`);
    const isForm = content instanceof FormData;
    const headers = { authorization: `Bearer ${key}`, ...(!isForm && { 'content-type': 'application/json' }) };
    const response = await fetch(url + path, { method: 'POST', headers, body: isForm ? content : JSON.stringify(content) });
    const text = await response.text();
    try {
      assert.equal(response.status, 200);
      check(text);
      results[title] = 'ok';
    } catch (error) {
      results[title] = `${error instanceof Error ? error.message : error}: ${response.status} ${text.slice(0, 300)}`;
    }
  }
  return { name: server.name, version: server.version, results };
}

interface RouteCase {
  readonly title: string;
  readonly use: ModelUse;
  readonly path: string;
  readonly provider?: 'as-chat' | 'as-messages' | 'as-cohere' | 'as-gemini';
  readonly body: (model: string) => object | FormData;
  readonly check: (text: string) => void;
}

const hello = [{ role: 'user', content: 'Hello' }];
const saysHello = (text: string): void => assert.match(text, /Hello/);
const chatTools = samples.tools.map((fn) => ({ type: 'function', function: fn }));
const messagesTools = samples.tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));
const callsWeather = (text: string): void => {
  assert.match(text, /get_weather/);
  assert.match(text, /Oslo/);
};
const oslo = [{ role: 'user', content: 'Oslo' }];

function textCases(): RouteCase[] {
  return (['as-chat', 'as-messages'] as const).flatMap((provider): RouteCase[] => {
    const on = `, as a ${provider.slice(3)} vendor`;
    const base = { provider, use: 'text' } as const;
    const chat = { ...base, path: '/v1/chat/completions' };
    const messages = { ...base, path: '/v1/messages' };
    const responses = { ...base, path: '/v1/responses' };
    const ends = (pattern: RegExp) => (text: string) => {
      saysHello(joinDeltas(text));
      assert.match(text, pattern);
    };
    return [
      { ...chat, title: `chat${on}`, body: (model) => ({ model, messages: hello }), check: saysHello },
      { ...chat, title: `chat, streamed${on}`, body: (model) => ({ model, messages: hello, stream: true }), check: ends(/\[DONE\]/) },
      {
        ...chat,
        use: 'tools',
        title: `chat with tools${on}`,
        body: (model) => ({ model, messages: oslo, tools: chatTools }),
        check: callsWeather,
      },
      { ...messages, title: `messages${on}`, body: (model) => ({ model, max_tokens: 100, messages: hello }), check: saysHello },
      {
        ...messages,
        title: `messages, streamed${on}`,
        body: (model) => ({ model, max_tokens: 100, messages: hello, stream: true }),
        check: ends(/message_stop/),
      },
      {
        ...messages,
        use: 'tools',
        title: `messages with tools${on}`,
        body: (model) => ({ model, max_tokens: 100, messages: oslo, tools: messagesTools }),
        check: callsWeather,
      },
      { ...responses, title: `responses${on}`, body: (model) => ({ model, input: 'Hello' }), check: saysHello },
      {
        ...responses,
        title: `responses, streamed${on}`,
        body: (model) => ({ model, input: 'Hello', stream: true }),
        check: ends(/response\.completed/),
      },
    ];
  });
}

const otherCases: readonly RouteCase[] = [
  {
    title: 'embeddings',
    use: 'embeddings',
    path: '/v1/embeddings',
    body: (model) => ({ model, input: 'a cat', encoding_format: 'float' }),
    check: (text) => assert.ok(JSON.parse(text).data[0].embedding.length > 2),
  },
  {
    title: 'moderations',
    use: 'moderation',
    path: '/v1/moderations',
    body: (model) => ({ model, input: 'I hate you' }),
    check: (text) => assert.equal(JSON.parse(text).results[0].flagged, true),
  },
  {
    title: 'rerank',
    use: 'rerank',
    path: '/v1/rerank',
    body: (model) => ({ model, query: 'cat', documents: ['dog', 'cat'] }),
    check: (text) => assert.equal(JSON.parse(text).results.length, 2),
  },
  {
    title: 'rerank',
    use: 'rerank-v2',
    provider: 'as-cohere',
    path: '/v1/rerank',
    body: (model) => ({ model, query: 'cat', documents: ['dog', 'cat'] }),
    check: (text) => assert.equal(JSON.parse(text).results.length, 2),
  },
  {
    title: 'images',
    use: 'images',
    path: '/v1/images/generations',
    body: (model) => ({ model, prompt: 'A cat' }),
    check: (text) => assert.ok(JSON.parse(text).data[0].b64_json.length > 50),
  },
  {
    title: 'images of an unknown model',
    use: 'unknown-images',
    path: '/v1/images/generations',
    body: (model) => ({ model, prompt: 'A cat' }),
    check: (text) => assert.ok(JSON.parse(text).data[0].b64_json.length > 50),
  },
  {
    title: 'speech',
    use: 'speech',
    path: '/v1/audio/speech',
    body: (model) => ({ model, input: 'Hello', voice: 'alloy' }),
    check: (text) => assert.ok(text.length > 0),
  },
  {
    title: 'transcriptions',
    use: 'audio',
    path: '/v1/audio/transcriptions',
    body: (model) => form({ model, file: ['a.mp3', 'sound'] }),
    check: (text) => assert.match(text, /spoken|demo vendor received/),
  },
  {
    title: 'translations',
    use: 'translations',
    path: '/v1/audio/translations',
    body: (model) => form({ model, file: ['a.mp3', 'sound'] }),
    check: (text) => assert.match(text, /spoken/),
  },
  {
    title: 'image edits',
    use: 'edits',
    path: '/v1/images/edits',
    body: (model) => form({ model, prompt: 'A cat', image: ['a.png', 'image'] }),
    check: (text) => assert.match(text, /b64_json/),
  },
  {
    title: 'video',
    use: 'video',
    provider: 'as-gemini',
    path: '/v1/video/generations',
    body: (model) => ({ model, prompt: 'A cat' }),
    check: (text) => assert.match(text, /operation/),
  },
];

function form(fields: Readonly<Record<string, string | readonly [name: string, content: string]>>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'string') data.append(name, value);
    else data.append(name, new Blob([value[1]]), value[0]);
  }
  return data;
}

/** Joins the texts of a stream into one string, whatever its dialect. */
function joinDeltas(stream: string): string {
  return [...stream.matchAll(/"(?:content|text|delta)":\s*"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text).join('');
}
