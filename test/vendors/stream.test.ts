import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { VendorError } from '../../src/core/errors.ts';
import { chat } from '../../src/dialects/chat/codec.ts';
import type { RouteCodec } from '../../src/dialects/contract/route-codec.ts';
import { messages } from '../../src/dialects/messages/codec.ts';
import { createResponseBody, type IncomingBody, type ResponseBody } from '../../src/vendors/response-body.ts';
import type { StreamChunk, StreamEnd } from '../../src/vendors/stream.ts';
import { nextChunk, omitUsage, relayEvents } from '../../src/vendors/stream.ts';
import { streamOf } from '../dialects/events.ts';

interface Relayed {
  readonly relayed: StreamChunk[];
  readonly text: string;
  readonly end: StreamEnd;
}

/** A body whose connection is `closed` once it has been destroyed. */
function createBody(): { body: IncomingBody; isClosed: () => boolean } {
  let isClosed = false;
  const abort = (): void => {
    isClosed = true;
  };
  return { body: createResponseBody({ pause() {}, resume() {}, abort }), isClosed: () => isClosed };
}

/** A body of these chunks. Each of them arrives once the previous one has been read. */
function bodyOf(chunks: readonly (string | Buffer)[], failure?: VendorError): ResponseBody {
  const { body } = createBody();
  const rest = chunks.filter(({ length }) => length > 0);
  return {
    ...body,
    take() {
      const next = rest.shift();
      if (next !== undefined) body.add(Buffer.from(next));
      else if (failure) body.fail(failure);
      else body.end();
      return body.take();
    },
  };
}

/** Relays `chunks`, after which the vendor ends the response or the connection fails with `failure`. */
async function relay(rules: RouteCodec, chunks: readonly (string | Buffer)[], failure?: VendorError): Promise<Relayed> {
  const stream = relayEvents(bodyOf(chunks, failure), rules.createStreamReader());
  const relayed: StreamChunk[] = [];
  for (;;) {
    const step = await nextChunk(stream);
    if (step.kind !== 'chunk') return { relayed, text: Buffer.concat(relayed.map(({ bytes }) => bytes)).toString(), end: step };
    relayed.push(step);
  }
}

/** The error that the HTTP client throws for a connection that is reset. */
const reset = new VendorError('broken', 'the response ended early');
const delta = (content: string): object => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const finish = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
const usage = { choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } };
const whole = streamOf(delta('Hello'), delta(' world'), finish, usage, '[DONE]');
const event = (data: { type: string }): string => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
const messageStart = event({ type: 'message_start' });
const messageStop = event({ type: 'message_stop' });
const messageError = `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } })}\n\n`;

function cut(text: string, places: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text);
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, index) => bytes.subarray(from, at[index] ?? bytes.length));
}

describe('relaying a complete stream', () => {
  test('relays complete stream events byte for byte', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 8 }), async (places) => {
        const { relayed, text, end } = await relay(chat, cut(whole, places));
        expect(text).toBe(whole);
        expect(end).toEqual({ kind: 'whole' });
        for (const { bytes } of relayed) expect(bytes.toString().endsWith('\n\n')).toBe(true);
        expect(relayed.map(({ isLast: last }) => last)).toEqual(relayed.map((_, index) => index === relayed.length - 1));
      }),
    );
  });

  test("omits usage that the caller didn't request", async () => {
    const filtered = { choices: [], prompt_filter_results: [{ prompt_index: 0 }], usage: null };
    const text = `: one\r\n\r\n${streamOf(filtered, delta('é'), finish)}${streamOf(usage).replaceAll('\n', '\r\n')}${streamOf('[DONE]')}`;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 8 }), async (places) => {
        const { relayed } = await relay(chat, cut(text, places));
        expect(Buffer.concat(relayed.map(({ bytes }) => bytes)).toString()).toBe(text);
        const shown = Buffer.concat(relayed.map(omitUsage)).toString();
        expect(shown).toBe(`: one\r\n\r\n${streamOf(filtered, delta('é'), finish, '[DONE]')}`);
      }),
    );
  });

  test('ends a messages stream with message_stop', async () => {
    const chunks = [messageStart, event({ type: 'ping' }), messageStop];
    const { relayed, end } = await relay(messages, chunks);
    const opening = { isLast: false, isOpening: true };
    expect(relayed).toEqual(
      chunks.map((text, index) => ({
        kind: 'chunk',
        bytes: Buffer.from(text),
        events: [expect.objectContaining({ data: text.slice(text.indexOf('{'), -2) })],
        ...(index === 2 ? { isLast: true } : opening),
      })),
    );
    expect(end).toEqual({ kind: 'whole' });
  });

  test('marks the chunk that contains [DONE] as the last one', async () => {
    expect((await relay(chat, [whole])).relayed).toMatchObject([{ bytes: Buffer.from(whole), isLast: true }]);
  });

  test('accepts a stream that has a finish reason but no [DONE]', async () => {
    const text = streamOf(delta('x'), finish, usage);
    expect(await relay(chat, [text])).toMatchObject({
      relayed: [{ bytes: Buffer.from(text), isLast: false }],
      text,
      end: { kind: 'whole' },
    });
  });

  test('accepts a stream without a blank line at the end', async () => {
    for (const text of [whole.slice(0, -1), whole.slice(0, -2)]) {
      const relayed = await relay(chat, [text]);
      expect(relayed).toMatchObject({ text, end: { kind: 'whole' } });
      expect(relayed.relayed.at(-1)?.isLast).toBe(true);
    }
    const unclosed = streamOf(delta('x'), finish).slice(0, -2);
    expect(await relay(chat, [unclosed])).toMatchObject({ text: unclosed, end: { kind: 'whole' } });
  });

  test('drops an incomplete stream event after the finish reason', async () => {
    const text = streamOf(delta('x'), finish);
    expect(await relay(chat, [text, 'data: {"choices":[],"usa'])).toMatchObject({ text, end: { kind: 'whole' } });
  });

  test('relays comments, CRLF line endings and unreadable events unchanged', async () => {
    const text = `data: ${JSON.stringify(delta('x'))}\r\n\r\n: note\r\n\r\ndata: what?\r\n\r\ndata: [DONE]\r\n\r\n`;
    expect(await relay(chat, cut(text, [5, 60, 80]))).toMatchObject({ text, end: { kind: 'whole' } });
  });
});

test("aborts a stream with more than a hundred events that aren't JSON", async () => {
  const { text, end } = await relay(chat, [streamOf(delta('x')), ...Array<string>(1_000).fill('data: what?\n\n')]);
  expect(text.length).toBeLessThan(5_000);
  expect(end).toEqual({ kind: 'broken', message: "the stream is not in the format of the provider's dialect", errorForwarded: false });
});

test("doesn't relay an error event that is too long to search for secrets", async () => {
  const first = streamOf(delta('x'));
  const long = streamOf({ error: { message: 'sk'.repeat(50_000) } });
  const { text, end } = await relay(chat, [first + long]);
  expect([text, end]).toEqual([
    first,
    { kind: 'broken', message: 'the vendor reported an error that is too long to relay', errorForwarded: false },
  ]);
});

describe('faults before the first chunk of a stream', () => {
  const keepAlive = ': OPENROUTER PROCESSING\n\n';

  test.each<[string, RouteCodec, (string | Buffer)[], string]>([
    ['nothing arrived', chat, [], 'the vendor ended the stream early'],
    ['only keep-alives came', chat, [keepAlive, keepAlive], 'the vendor ended the stream early'],
    ['only [DONE] came', chat, ['data: [DONE]\n\n'], 'the vendor ended the stream early'],
    ['only message_stop came', messages, [messageStop], 'the vendor ended the stream early'],
    ['half an event arrived', chat, ['data: {"choices":[{"del'], "the stream is not in the format of the provider's dialect"],
    ['an unfinished first event arrived', chat, [streamOf(delta('x')).slice(0, -2)], 'the vendor ended the stream early'],
    ['an error event arrived', chat, [keepAlive, streamOf({ error: { message: 'overloaded' } }, '[DONE]')], 'overloaded'],
    ['an error event without a message arrived', messages, [event({ type: 'error' })], 'the vendor reported an error'],
    ['plain text arrived', chat, ['data: hello\n\n', whole], "the stream is not in the format of the provider's dialect"],
    ['an HTML page arrived', chat, ['<html>\n\n<body>'], 'the vendor ended the stream early'],
    ['events of another dialect arrived', messages, [whole], "the stream is not in the format of the provider's dialect"],
    [
      'events of another dialect arrived for chat',
      chat,
      [messageStart, event({ type: 'content_block_delta' }), messageStop],
      'the vendor ended the stream early',
    ],
  ])('relays nothing of a stream and reports it as broken if %s', async (_name, rules, chunks, message) => {
    expect(await relay(rules, chunks)).toEqual({ relayed: [], text: '', end: { kind: 'broken', message, errorForwarded: false } });
  });

  test('holds back keep-alives and sends them with the first chunk', async () => {
    const { relayed, text } = await relay(chat, [keepAlive, ': again', '\n\n', whole]);
    expect(text).toBe(`${keepAlive}: again\n\n${whole}`);
    expect(relayed).toHaveLength(1);
  });

  test('reports a broken stream if only keep-alives arrive', async () => {
    const comment = `: ${'x'.repeat(60_000)}\n\n`;
    const { relayed, end } = await relay(
      chat,
      Array.from({ length: 100 }, () => comment),
    );
    expect(relayed).toEqual([]);
    expect(end).toEqual({ kind: 'broken', message: 'only keep-alive events arrived', errorForwarded: false });
  });

  test('reports a broken connection as a broken stream', async () => {
    expect(await relay(chat, [keepAlive], reset)).toMatchObject({
      relayed: [],
      end: { kind: 'broken', message: 'the response ended early', errorForwarded: false },
    });
  });
});

describe('faults after the first chunk of a stream', () => {
  const begun = streamOf(delta('Hel'));

  test.each<[string, (string | Buffer)[], VendorError | undefined, string]>([
    ['the vendor ends the stream', [begun], undefined, 'the vendor ended the stream early'],
    [
      'the vendor ends the stream within an event',
      [begun, 'data: {"choices":[{"delta":{"con'],
      undefined,
      'the vendor ended the stream early',
    ],
    ['the connection breaks', [begun, 'data: {"cho'], reset, 'the response ended early'],
    ['an event never ends', [begun, 'data: ', Buffer.alloc(17 * 1024 * 1024, 0x78)], undefined, 'an event is larger than 16777216 bytes'],
  ])('relays only complete stream events and reports a broken stream if %s', async (_name, chunks, failure, message) => {
    expect(await relay(chat, chunks, failure)).toMatchObject({
      relayed: [{ kind: 'chunk', bytes: Buffer.from(begun), events: [{ data: JSON.stringify(delta('Hel')) }], isLast: false }],
      text: begun,
      end: { kind: 'broken', message, errorForwarded: false },
    });
  });

  test("relays the vendor's error event and nothing after it", async () => {
    const error = streamOf({ error: { message: 'boom' } });
    const all = `${begun}${error}${streamOf('[DONE]')}`;
    for (const chunks of [
      [all],
      [begun, `${error}${streamOf('[DONE]')}`],
      [begun, error, streamOf('[DONE]')],
      cut(all, [3, begun.length + 4]),
    ]) {
      const { relayed, text, end } = await relay(chat, chunks);
      expect(text).toBe(begun + error);
      expect(end).toEqual({ kind: 'broken', message: 'boom', errorForwarded: true });
      expect(relayed.some(({ isLast: last }) => last)).toBe(false);
    }
  });

  test('marks the error event of a messages stream as forwarded', async () => {
    const { text, end } = await relay(messages, [messageStart + messageError, messageStop]);
    expect(text).toBe(messageStart + messageError);
    expect(end).toEqual({ kind: 'broken', message: 'Overloaded', errorForwarded: true });
  });

  test('relays an error event even if its blank line is missing', async () => {
    const { text, end } = await relay(messages, [messageStart + messageError.slice(0, -2)]);
    expect(text).toBe(messageStart + messageError.slice(0, -2));
    expect(end).toMatchObject({ kind: 'broken', errorForwarded: true });
  });
});

describe('a stream that the caller cancels', () => {
  const aborted = new VendorError('aborted', 'gone');

  test.each<[string, string[]]>([
    ['before the first chunk', []],
    ['after the first chunk', [streamOf(delta('x'))]],
  ])('throws an aborted VendorError %s', async (_name, chunks) => {
    const failed = relay(chat, chunks, aborted);
    await expect(failed).rejects.toBeInstanceOf(VendorError);
    await expect(failed).rejects.toMatchObject({ kind: 'aborted' });
  });
});

describe("the body of the vendor's stream", () => {
  test("doesn't close the body after a complete stream, so that the connection can be reused", async () => {
    const { body, isClosed } = createBody();
    body.add(Buffer.from(whole));
    const stream = relayEvents(body, chat.createStreamReader());
    stream.read();
    expect(stream.read()).toEqual({ kind: 'whole' });
    stream.close();
    expect(isClosed()).toBe(false);
  });

  test.each<[string, string]>([
    ['the vendor reports an error', streamOf({ error: {} })],
    ['the stream is of another dialect', 'data: x\n\n'],
  ])("closes the body of the vendor's stream if %s", async (_name, text) => {
    const { body, isClosed } = createBody();
    body.add(Buffer.from(text));
    relayEvents(body, chat.createStreamReader()).read();
    expect(isClosed()).toBe(true);
  });

  test("closes the body of the vendor's stream if the reader stops early", async () => {
    const { body, isClosed } = createBody();
    body.add(Buffer.from(streamOf(delta('x'))));
    const stream = relayEvents(body, chat.createStreamReader());
    stream.read();
    stream.close();
    expect(isClosed()).toBe(true);
  });
});

test("removes the provider's key from an error event but not from earlier events", () => {
  const key = 'key-of-the-vendor';
  const { body } = createBody();
  const said = streamOf({ choices: [{ index: 0, delta: { content: `as in ${key}` } }] });
  body.add(Buffer.from(said + streamOf({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } })));
  body.add(Buffer.from(streamOf({ error: { message: `no such key: ${key}` } })));
  const chunk = relayEvents(body, chat.createStreamReader(), [key]).read();
  expect(omitUsage(chunk as StreamChunk).toString()).toBe(said + streamOf({ error: { message: 'no such key: [key]' } }));
});

test('removes account ids from an error event in the middle of a stream', () => {
  const { body } = createBody();
  const said = streamOf(delta('of org-Ab12Cd34Ef'));
  body.add(Buffer.from(said + streamOf({ error: { message: 'limit of org-Ab12Cd34Ef (sk-a***f)' } })));
  const chunk = relayEvents(body, chat.createStreamReader(), ['key-of-the-vendor']).read();
  expect((chunk as StreamChunk).bytes.toString()).toBe(said + streamOf({ error: { message: 'limit of [account] ([key])' } }));
});

test('redacts an error event so that it is still valid JSON', () => {
  const { body } = createBody();
  const said = streamOf(delta('x'));
  const message = 'Keys:\n****cdef, ****gh\nsk-a…ij\tsk-b...kl\norg-Ab12Cd34Ef';
  const escaped = streamOf({ error: { message } }).replace('…', String.raw`\u2026`).replace(', ', String.raw`\u2026`);
  body.add(Buffer.from(said + escaped));
  const { bytes } = relayEvents(body, chat.createStreamReader(), []).read() as StreamChunk;
  const data = bytes.toString().slice(said.length + 'data: '.length);
  expect(JSON.parse(data)).toEqual({ error: { message: 'Keys:\n[key]…[key]\n[key]\t[key]\n[account]' } });
});
