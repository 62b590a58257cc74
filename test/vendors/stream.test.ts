import { Readable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { VendorError } from '../../src/core/errors.ts';
import { chat } from '../../src/dialects/chat/codec.ts';
import type { RouteCodec } from '../../src/dialects/contract/route-codec.ts';
import { messages } from '../../src/dialects/messages/codec.ts';
import type { StreamChunk, StreamEnd } from '../../src/vendors/stream.ts';
import { relayEvents } from '../../src/vendors/stream.ts';
import { streamOf } from '../dialects/events.ts';

interface Relayed {
  readonly pieces: StreamChunk[];
  readonly text: string;
  readonly end: StreamEnd;
}

/** Relays `chunks`; after them the vendor ends the answer, or `failure` happens. */
async function relay(rules: RouteCodec, chunks: readonly (string | Buffer)[], failure?: Error): Promise<Relayed> {
  async function* source(): AsyncGenerator<Buffer> {
    for (const chunk of chunks) yield Buffer.from(chunk);
    if (failure) throw failure;
  }
  const stream = relayEvents(Readable.from(source(), { objectMode: false }), rules.createStreamReader());
  const pieces: StreamChunk[] = [];
  for (;;) {
    const step = await stream.next();
    if (step.done) return { pieces, text: Buffer.concat(pieces.map(({ bytes }) => bytes)).toString(), end: step.value };
    pieces.push(step.value);
  }
}

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

describe('a whole answer', () => {
  test('is passed on byte for byte, in whole events, however it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 8 }), async (places) => {
        const { pieces, text, end } = await relay(chat, cut(whole, places));
        expect(text).toBe(whole);
        expect(end).toEqual({ kind: 'whole' });
        for (const { bytes } of pieces) expect(bytes.toString().endsWith('\n\n')).toBe(true);
        expect(pieces.map(({ isLast: last }) => last)).toEqual(pieces.map((_, index) => index === pieces.length - 1));
      }),
    );
  });

  test('of the messages dialect ends with message_stop', async () => {
    const chunks = [messageStart, event({ type: 'ping' }), messageStop];
    const { pieces, end } = await relay(messages, chunks);
    expect(pieces).toEqual(chunks.map((text, index) => ({ bytes: Buffer.from(text), last: index === 2 })));
    expect(end).toEqual({ kind: 'whole' });
  });

  test('marks the piece with [DONE] as the last, whatever stands before it in the same chunk', async () => {
    expect((await relay(chat, [whole])).pieces).toEqual([{ bytes: Buffer.from(whole), last: true }]);
  });

  test('is whole with a finish reason, although [DONE] never comes', async () => {
    const text = streamOf(delta('x'), finish, usage);
    expect(await relay(chat, [text])).toEqual({ pieces: [{ bytes: Buffer.from(text), last: false }], text, end: { kind: 'whole' } });
  });

  test('is whole when only its last blank line is missing', async () => {
    for (const text of [whole.slice(0, -1), whole.slice(0, -2)]) {
      const relayed = await relay(chat, [text]);
      expect(relayed).toMatchObject({ text, end: { kind: 'whole' } });
      expect(relayed.pieces.at(-1)?.isLast).toBe(true);
    }
    const unclosed = streamOf(delta('x'), finish).slice(0, -2);
    expect(await relay(chat, [unclosed])).toMatchObject({ text: unclosed, end: { kind: 'whole' } });
  });

  test('does not take half an event with it that was cut off behind its finish reason', async () => {
    const text = streamOf(delta('x'), finish);
    expect(await relay(chat, [text, 'data: {"choices":[],"usa'])).toMatchObject({ text, end: { kind: 'whole' } });
  });

  test('keeps its comments, CRLF line ends and unreadable events', async () => {
    const text = `data: ${JSON.stringify(delta('x'))}\r\n\r\n: note\r\n\r\ndata: what?\r\n\r\ndata: [DONE]\r\n\r\n`;
    expect(await relay(chat, cut(text, [5, 60, 80]))).toMatchObject({ text, end: { kind: 'whole' } });
  });
});

describe('before the first piece', () => {
  const keepAlive = ': OPENROUTER PROCESSING\n\n';

  test.each<[string, RouteCodec, (string | Buffer)[], string]>([
    ['nothing came', chat, [], 'the vendor ended the stream early'],
    ['only keep-alives came', chat, [keepAlive, keepAlive], 'the vendor ended the stream early'],
    ['only [DONE] came', chat, ['data: [DONE]\n\n'], 'the vendor ended the stream early'],
    ['only message_stop came', messages, [messageStop], 'the vendor ended the stream early'],
    ['half an event came', chat, ['data: {"choices":[{"del'], 'the stream is not of this dialect'],
    ['an unfinished first event came', chat, [streamOf(delta('x')).slice(0, -2)], 'the vendor ended the stream early'],
    ['an error event came', chat, [keepAlive, streamOf({ error: { message: 'overloaded' } }, '[DONE]')], 'overloaded'],
    ['an error event without words came', messages, [event({ type: 'error' })], 'the vendor reported an error'],
    ['text came', chat, ['data: hello\n\n', whole], 'the stream is not of this dialect'],
    ['a page came', chat, ['<html>\n\n<body>'], 'the vendor ended the stream early'],
    ['another dialect came', messages, [whole], 'the stream is not of this dialect'],
    [
      'another dialect came to chat',
      chat,
      [messageStart, event({ type: 'content_block_delta' }), messageStop],
      'the vendor ended the stream early',
    ],
  ])('%s: broken, and nothing was passed on', async (_name, rules, chunks, message) => {
    expect(await relay(rules, chunks)).toEqual({ pieces: [], text: '', end: { kind: 'broken', message, told: false } });
  });

  test('keep-alives wait, and go out with it', async () => {
    const { pieces, text } = await relay(chat, [keepAlive, ': again', '\n\n', whole]);
    expect(text).toBe(`${keepAlive}: again\n\n${whole}`);
    expect(pieces).toHaveLength(1);
  });

  test('keep-alives without end do not fill the memory', async () => {
    const comment = `: ${'x'.repeat(60_000)}\n\n`;
    const { pieces, end } = await relay(
      chat,
      Array.from({ length: 100 }, () => comment),
    );
    expect(pieces).toEqual([]);
    expect(end).toEqual({ kind: 'broken', message: 'no piece of an answer came', told: false });
  });

  test('a broken connection is broken', async () => {
    expect(await relay(chat, [keepAlive], new Error('reset'))).toMatchObject({
      pieces: [],
      end: { kind: 'broken', message: 'the answer broke off', told: false },
    });
  });
});

describe('after the first piece', () => {
  const begun = streamOf(delta('Hel'));

  test.each<[string, (string | Buffer)[], Error | undefined, string]>([
    ['the vendor ends', [begun], undefined, 'the vendor ended the stream early'],
    ['the vendor ends in an event', [begun, 'data: {"choices":[{"delta":{"con'], undefined, 'the vendor ended the stream early'],
    ['the connection breaks', [begun, 'data: {"cho'], new Error('reset'), 'the answer broke off'],
    ['an event never ends', [begun, 'data: ', Buffer.alloc(17 * 1024 * 1024, 0x78)], undefined, 'an event is larger than 16777216 bytes'],
  ])('%s: broken, with whole events only', async (_name, chunks, failure, message) => {
    expect(await relay(chat, chunks, failure)).toEqual({
      pieces: [{ bytes: Buffer.from(begun), last: false }],
      text: begun,
      end: { kind: 'broken', message, told: false },
    });
  });

  test("the vendor's error is passed on, and nothing behind it", async () => {
    const error = streamOf({ error: { message: 'boom' } });
    const all = `${begun}${error}${streamOf('[DONE]')}`;
    for (const chunks of [
      [all],
      [begun, `${error}${streamOf('[DONE]')}`],
      [begun, error, streamOf('[DONE]')],
      cut(all, [3, begun.length + 4]),
    ]) {
      const { pieces, text, end } = await relay(chat, chunks);
      expect(text).toBe(begun + error);
      expect(end).toEqual({ kind: 'broken', message: 'boom', told: true });
      expect(pieces.some(({ isLast: last }) => last)).toBe(false);
    }
  });

  test("the vendor's error event of the messages dialect counts as told", async () => {
    const { text, end } = await relay(messages, [messageStart + messageError, messageStop]);
    expect(text).toBe(messageStart + messageError);
    expect(end).toEqual({ kind: 'broken', message: 'Overloaded', told: true });
  });

  test('an error without its blank line is still told', async () => {
    const { text, end } = await relay(messages, [messageStart + messageError.slice(0, -2)]);
    expect(text).toBe(messageStart + messageError.slice(0, -2));
    expect(end).toMatchObject({ kind: 'broken', told: true });
  });
});

describe('our own side ends it', () => {
  const aborted = new DOMException('gone', 'AbortError');

  test.each<[string, string[]]>([
    ['before the first piece', []],
    ['after it', [streamOf(delta('x'))]],
  ])('%s: VendorError aborted', async (_name, chunks) => {
    const failed = relay(chat, chunks, aborted);
    await expect(failed).rejects.toBeInstanceOf(VendorError);
    await expect(failed).rejects.toMatchObject({ kind: 'aborted' });
  });
});

describe('the body', () => {
  test('is left open behind the end of a whole answer, so that its connection can be used again', async () => {
    const body = new Readable({ read: () => {} });
    body.push(whole);
    const stream = relayEvents(body, chat.createStreamReader());
    await stream.next();
    expect(await stream.next()).toEqual({ done: true, value: { kind: 'whole' } });
    expect(body.destroyed).toBe(false);
    body.destroy();
  });

  test.each<[string, string]>([
    ['the vendor reports an error', streamOf({ error: {} })],
    ['the stream is of another dialect', 'data: x\n\n'],
  ])('is ended when %s', async (_name, text) => {
    const body = new Readable({ read: () => {} });
    body.push(text);
    await relayEvents(body, chat.createStreamReader()).next();
    expect(body.destroyed).toBe(true);
  });

  test('is ended when the reader stops early', async () => {
    const body = new Readable({ read: () => {} });
    body.push(streamOf(delta('x')));
    const stream = relayEvents(body, chat.createStreamReader());
    await stream.next();
    await stream.return({ kind: 'whole' });
    expect(body.destroyed).toBe(true);
  });
});
