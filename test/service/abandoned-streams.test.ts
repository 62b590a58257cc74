/**
 * Tests that if the reader of a stream leaves early, we charge for everything that the vendor generated, even if only a
 * small part of it was delivered.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { Agent, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { asObject, asString } from '../../src/core/json/narrow.ts';
import { estimateTokens } from '../../src/dialects/contract/token-usage.ts';
import { tokensWithin } from '../../src/pipeline/call/estimate.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { eventually, shareGateway, type TestGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

/** Sends the vendor's response to a request. The vendor picks the script by the name of the requested model. */
type Script = (response: ServerResponse) => void;
const scripts = new Map<string, Script>();
let vendor: LocalServer;
beforeAll(async () => {
  vendor = await startLocalServer(async (request, response) => {
    const { model } = asObject(await json(request));
    response.on('error', () => undefined);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    scripts.get(asString(model) ?? '')?.(response);
  });
});
afterAll(() => vendor.close());

const gateway = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  chat: { base_url: ${vendorUrl()}/v1, api_key: key-one, dialect: chat }
  messages: { base_url: ${vendorUrl()}/v1, api_key: key-two, dialect: messages }
tiers: { standard: [chat/any] }
`,
});

function vendorUrl(): string {
  return vendor.url;
}

/** The sockets of all requests to HTTP servers in this process, i.e. to the gateway and the vendor. */
const sockets: Socket[] = [];
const note = (message: unknown): void => void sockets.push((message as { readonly socket: Socket }).socket);
beforeAll(() => subscribe('http.server.request.start', note));
afterAll(() => {
  unsubscribe('http.server.request.start', note);
});

const agent = new Agent({ keepAlive: false });

/** A stream from the gateway. The test can wait until enough of it has arrived and leave at any time. */
interface Reader {
  /** Resolves when `bytes` bytes have arrived, not counting the gateway's probes. */
  received(bytes: number): Promise<void>;
  leave(): void;
}

function openStream({ url, key }: TestGateway, path: string, body: object): Reader {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const request = httpRequest(url + path, { method: 'POST', headers, agent }, (response) => void read(response));
  let count = 0;
  const arrived = new EventTarget();
  const read = async (response: IncomingMessage): Promise<void> => {
    try {
      for await (const chunk of response) {
        count += (chunk as Buffer).length;
        arrived.dispatchEvent(new Event('bytes'));
      }
    } catch {
      // The test has closed the connection.
    }
  };
  request.on('error', () => undefined);
  request.end(JSON.stringify(body));
  return {
    async received(bytes) {
      while (count < bytes) await once(arrived, 'bytes');
    },
    leave: () => void request.destroy(),
  };
}

interface StoredCall {
  readonly model: string;
  readonly outcome: string;
  readonly estimated: boolean;
  readonly input: number;
  readonly output: number;
}

/** Waits until the calls to all models have ended, and returns them by model. */
async function storedCalls({ database }: TestGateway, models: readonly string[]): Promise<ReadonlyMap<string, StoredCall>> {
  const rows = await eventually(async () => {
    const found = await database.query<StoredCall>(
      `select model_asked as model, outcome, estimated, tokens_input as input, tokens_output as output from calls where model_asked = any ($1::text[])`,
      [models],
    );
    expect(found).toHaveLength(models.length);
    return found;
  });
  return new Map(rows.map((row) => [row.model, row]));
}

interface ScriptedEvent {
  readonly text: string;
  /** The number of characters in this event that the model generated. */
  readonly characters: number;
}

const chatEvent = (choices: readonly object[], characters: number, more: object = {}): ScriptedEvent => ({
  text: `data: ${JSON.stringify({ choices, ...more })}\n\n`,
  characters,
});
const delta = (index: number, members: object, finish: string | null = null): object => ({ index, delta: members, finish_reason: finish });
const named = (type: string, members: object, characters = 0): ScriptedEvent => ({
  text: `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`,
  characters,
});

/** The final usage that each script reports, in tokens. */
const reported = { input: 70, output: 900 };

const streams: Readonly<Record<string, { readonly path: string; readonly body: object; readonly events: readonly ScriptedEvent[] }>> = {
  chat: {
    path: '/v1/chat/completions',
    body: { n: 2, stream_options: { include_usage: true }, messages: [] },
    events: [
      chatEvent([delta(0, { reasoning: 'Thinking. ' })], 10),
      chatEvent([delta(1, { content: 'Two: 漢字 ' })], 8),
      chatEvent([delta(0, { content: 'One.' })], 4),
      chatEvent([delta(0, { content: 'More.' })], 5),
      chatEvent([delta(1, { tool_calls: [{ index: 0, id: 'c1', function: { name: 'look', arguments: '{"a":1}' } }] })], 11),
      chatEvent([delta(0, {}, 'stop'), delta(1, {}, 'tool_calls')], 0),
      chatEvent([], 0, { usage: { prompt_tokens: reported.input, completion_tokens: reported.output } }),
      { text: 'data: [DONE]\n\n', characters: 0 },
    ],
  },
  messages: {
    path: '/v1/messages',
    body: { max_tokens: 1_000, messages: [] },
    events: [
      named('message_start', { message: { content: [], usage: { input_tokens: reported.input, output_tokens: 1 } } }),
      named('content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } }),
      named('content_block_delta', { index: 0, delta: { type: 'thinking_delta', thinking: 'Thinking about it.' } }, 18),
      named('content_block_stop', { index: 0 }),
      named('content_block_start', { index: 1, content_block: { type: 'tool_use', id: 't', name: 'look', input: {} } }, 4),
      named('content_block_delta', { index: 1, delta: { type: 'input_json_delta', partial_json: '{"a":1}' } }, 7),
      named('content_block_stop', { index: 1 }),
      named('message_delta', { delta: { stop_reason: 'tool_use' }, usage: { output_tokens: reported.output } }),
      named('message_stop', {}),
    ],
  },
  responses: {
    path: '/v1/responses',
    body: { input: '' },
    events: [
      named('response.created', { response: { status: 'in_progress', background: false } }),
      named('response.output_item.added', { output_index: 0, item: { type: 'reasoning', summary: [] } }),
      named('response.reasoning_summary_text.delta', { output_index: 0, delta: 'Thinking about it.' }, 18),
      named('response.output_item.done', { output_index: 0, item: { type: 'reasoning', summary: [{ text: 'Thinking about it.' }] } }),
      named('response.output_item.added', { output_index: 1, item: { type: 'function_call', name: 'look', arguments: '' } }, 4),
      named('response.function_call_arguments.delta', { output_index: 1, delta: '{"a":1}' }, 7),
      named('response.output_item.done', { output_index: 1, item: { type: 'function_call', name: 'look', arguments: '{"a":1}' } }),
      named('response.completed', { response: { output: [], usage: { input_tokens: reported.input, output_tokens: reported.output } } }),
    ],
  },
};

/** Matches `least` and up to `hidden` tokens more, which the model may have generated before its first content. */
const between = (least: number, hidden = 1_000): unknown => {
  const matcher = { asymmetricMatch: (value: unknown) => typeof value === 'number' && value >= least && value <= least + hidden };
  return { ...matcher, toString: () => `a number from ${least} to ${least + hidden}` };
};

describe.each(Object.keys(streams))('a %s stream that the caller abandons', (name) => {
  const { path, body, events } = streams[name] ?? { path: '', body: {}, events: [] };
  const provider = name === 'messages' ? 'messages' : 'chat';
  const bytes = Buffer.from(events.map(({ text }) => text).join(''));
  /** The byte offset at which each event ends. */
  const ends = events.map((_, index) =>
    Buffer.byteLength(
      events
        .slice(0, index + 1)
        .map(({ text }) => text)
        .join(''),
    ),
  );

  it('charges for the delivered part of an abandoned stream, wherever it stops', async () => {
    const all = Array.from({ length: bytes.length }, (_, cut) => cut);
    const cuts = all.filter((cut) => isExhaustive || cut % 4 === 0 || ends.includes(cut) || ends.includes(cut + 1));
    const models = cuts.map((cut) => `${provider}/${name}-${cut}`);
    const waiting = cuts.slice();
    const startedAt = performance.now();
    const work = async (): Promise<void> => {
      for (let cut = waiting.shift(); cut !== undefined; cut = waiting.shift()) {
        const sent = Promise.withResolvers<void>();
        scripts.set(`${name}-${cut}`, (response) => {
          if (cut > 0) response.write(bytes.subarray(0, cut));
          sent.resolve();
        });
        const reader = openStream(gateway(), path, { ...body, model: `${provider}/${name}-${cut}`, stream: true });
        await sent.promise;
        await reader.received(ends.findLast((end) => end <= cut) ?? 0);
        reader.leave();
      }
    };
    await Promise.all(Array.from({ length: 150 }, work));
    const calls = await storedCalls(gateway(), models);
    const choices = 'n' in body ? Number(body.n) : 1;
    const mostHidden = choices * tokensWithin(performance.now() - startedAt);
    const isReported = (event: ScriptedEvent): boolean => event.text.includes(String(reported.output));
    for (const [index, cut] of cuts.entries()) {
      const arrived = events.filter((_, position) => (ends[position] ?? 0) <= cut);
      const call = calls.get(models[index] ?? '');
      if (arrived.some(isReported)) expect(call).toMatchObject({ ...reported, estimated: false });
      else {
        const characters = arrived.reduce((sum, event) => sum + event.characters, 0);
        const least = name === 'messages' && arrived.length > 0 ? 1 : 0;
        // The gateway also charges what the model may have generated before its first content.
        expect([cut, call?.output]).toEqual([cut, between(Math.max(least, estimateTokens(characters)), mostHidden)]);
        expect(call).toMatchObject({ outcome: 'client_left', estimated: true });
      }
    }
  });
});

describe('a caller that disconnects before the first content', () => {
  const opening = chatEvent([delta(0, { role: 'assistant', content: '' })], 0).text;
  const content = chatEvent([delta(0, { content: 'Said.' })], 5).text;
  /** Allows for timers that fire a little early. */
  const hidden = tokensWithin(490);

  it.each([
    ['before the first content', opening],
    ['right after the first content', opening + content],
  ])('charges for hidden reasoning if the caller disconnects %s', async (what, events) => {
    const model = what.replaceAll(' ', '-');
    scripts.set(model, (response) => {
      response.write(opening);
      setTimeout(() => response.write(events.slice(opening.length) || ': waiting\n\n'), 500);
    });
    const reader = openStream(gateway(), '/v1/chat/completions', { model: `chat/${model}`, messages: [], stream: true });
    await reader.received(Buffer.byteLength(events));
    if (events === opening) await new Promise((resolve) => setTimeout(resolve, 500));
    reader.leave();
    const call = (await storedCalls(gateway(), [`chat/${model}`])).get(`chat/${model}`);
    expect(call).toMatchObject({ outcome: 'client_left', estimated: true });
    expect(call?.output).toBeGreaterThanOrEqual(hidden);
  });

  it('never charges an abandoned stream for more tokens than the request allows', async () => {
    scripts.set('limited', (response) => void response.write(opening));
    const body = { model: 'chat/limited', max_tokens: 7, messages: [], stream: true };
    const reader = openStream(gateway(), '/v1/chat/completions', body);
    await reader.received(Buffer.byteLength(opening));
    await new Promise((resolve) => setTimeout(resolve, 500));
    reader.leave();
    expect((await storedCalls(gateway(), ['chat/limited'])).get('chat/limited')?.output).toBe(7);
  });
});

describe('a caller that disconnects after the last choice has finished', () => {
  const choices = Array.from({ length: 8 }, (_, index) => index);
  const spoken = choices.flatMap((index) => [
    chatEvent([delta(index, { reasoning_content: 'Thinking. '.repeat(20) })], 200),
    chatEvent([delta(index, { content: 'Said.' })], 5),
  ]);
  const finished = choices.map((index) => chatEvent([delta(index, {}, 'stop')], 0));
  const usage = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 12_800 } })}\n\n`;
  const textOf = (events: readonly ScriptedEvent[]): string => events.map(({ text }) => text).join('');

  /**
   * Makes the reader leave after `events`, and then makes the vendor send `rest`. Returns the stored call, and whether
   * the vendor was still connected.
   */
  async function leaveAfter(model: string, events: readonly ScriptedEvent[], rest: string, body: object, cancels = false) {
    const text = textOf(events);
    const begun = Promise.withResolvers<ServerResponse>();
    scripts.set(model, (response) => {
      response.write(text);
      begun.resolve(response);
    });
    const reader = openStream(gateway(), '/v1/chat/completions', { ...body, model: `chat/${model}`, messages: [], stream: true });
    const response = await begun.promise;
    await reader.received(Buffer.byteLength(text));
    reader.leave();
    // Before the vendor sends the rest, the gateway has to notice that its caller is gone.
    const closed = once(response, 'close');
    const port = Number(new URL(gateway().url).port);
    const caller = sockets.findLast(({ localPort }) => localPort === port);
    // It's not enough that the socket is destroyed, because `close` only fires after the next reads.
    await eventually(async () => expect(caller?.closed).toBe(true));
    if (cancels) await closed;
    const isConnected = !response.destroyed;
    response.end(rest);
    const call = (await storedCalls(gateway(), [`chat/${model}`])).get(`chat/${model}`);
    return { call, isConnected };
  }

  it('charges the usage that the vendor reports after the caller has disconnected', async () => {
    const { call, isConnected } = await leaveAfter('all', [...spoken, ...finished], `${usage}data: [DONE]\n\n`, { n: 8 });
    expect(isConnected).toBe(true);
    expect(call).toMatchObject({ outcome: 'client_left', estimated: false, input: 9, output: 12_800 });
  });

  it('estimates the usage of an abandoned stream if the vendor reports none', async () => {
    const { call } = await leaveAfter('silent', [...spoken, ...finished], '', { n: 8 });
    expect(call).toMatchObject({ outcome: 'client_left', estimated: true, output: between(estimateTokens(8 * 205)) });
  });

  it.each([
    ['one choice has not finished', [...spoken, ...finished.slice(0, 7)], 8 * 205],
    ['one choice has not begun', [...spoken.slice(0, 14), ...finished.slice(0, 7)], 7 * 205],
  ])('estimates the usage of an abandoned stream and cancels the vendor request if %s', async (what, events, characters) => {
    const { call, isConnected } = await leaveAfter(what.replaceAll(' ', '-'), events, usage, { n: 8 }, true);
    expect(isConnected).toBe(false);
    expect(call).toMatchObject({ outcome: 'client_left', estimated: true, output: between(estimateTokens(characters)) });
  });

  it('stops waiting for a usage report that the vendor never sends', async () => {
    scripts.set('endless', (response) => void response.write(textOf([...spoken, ...finished])));
    const reader = openStream(gateway(), '/v1/chat/completions', { model: 'chat/endless', n: 8, messages: [], stream: true });
    await reader.received(Buffer.byteLength(textOf([...spoken, ...finished])));
    reader.leave();
    expect((await storedCalls(gateway(), ['chat/endless'])).get('chat/endless')).toMatchObject({ outcome: 'client_left', estimated: true });
  });
});
