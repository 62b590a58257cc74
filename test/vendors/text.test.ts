import { describe, expect, test } from '@jest/globals';
import { VendorError } from '../../src/core/errors.ts';
import { chat } from '../../src/dialects/chat/codec.ts';
import { messages } from '../../src/dialects/messages/codec.ts';
import type { StreamEnd } from '../../src/vendors/stream.ts';
import type { StreamResponse, TextRequest, VendorResponse } from '../../src/vendors/text.ts';
import { sendToVendor } from '../../src/vendors/text.ts';
import type { Provider } from '../../src/vendors/vendor.ts';
import { streamOf } from '../dialects/events.ts';
import type { Answerer } from './fake-vendor.ts';
import { withVendor } from './fake-vendor.ts';

const delta = (content: string): object => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const opening = streamOf(delta('Hel'));
const rest = streamOf(
  delta('lo'),
  { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: { prompt_tokens: 1, completion_tokens: 2 } },
  '[DONE]',
);
const plain = JSON.stringify({ choices: [{ message: { content: 'Hi' } }], usage: { prompt_tokens: 1, completion_tokens: 2 } });
const eventStream = { 'content-type': 'text/event-stream; charset=utf-8' };

function requestOf(url: string, more: Partial<TextRequest> = {}, provider: Partial<Provider> = {}): TextRequest {
  return {
    provider: {
      name: 'vendor',
      dialect: 'chat',
      baseUrl: `${url}/v1`,
      headers: { authorization: 'Bearer secret' },
      secrets: ['secret'],
      connectTimeoutMs: 5000,
      firstByteTimeoutMs: 5000,
      idleTimeoutMs: 5000,
      ...provider,
    },
    codec: chat,
    body: Buffer.from('{"model":"m"}'),
    stream: false,
    forwardedHeaders: {},
    now: () => 0,
    ...more,
  };
}

/** What the gateway sees of a vendor that answers so. */
function ask(answer: Answerer, more: Partial<TextRequest> = {}): Promise<VendorResponse> {
  return withVendor(answer, ({ url, door }) => sendToVendor(door, requestOf(url, more)));
}

function streamed(answer: VendorResponse): StreamResponse {
  if (answer.kind !== 'stream') throw new Error('the answer is no stream');
  return answer;
}

async function readPieces(answer: StreamResponse): Promise<{ text: string; end: StreamEnd }> {
  const pieces = answer.pieces();
  let text = '';
  for (;;) {
    const step = await pieces.next();
    if (step.done) return { text, end: step.value };
    text += step.value.bytes.toString();
  }
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('what the vendor gets', () => {
  test('the body as it is, and only the headers of decisions 3', async () => {
    await withVendor(
      (response) => response.end(plain),
      async ({ url, door, received }) => {
        await sendToVendor(door, requestOf(url, { forwardedHeaders: { 'idempotency-key': 'i-1' } }));
        expect(received).toMatchObject([{ method: 'POST', path: '/v1/chat/completions', body: '{"model":"m"}' }]);
        expect(received[0]?.headers).toEqual({
          host: new URL(url).host,
          connection: 'keep-alive',
          'content-type': 'application/json',
          'content-length': '13',
          accept: 'application/json',
          'accept-encoding': 'identity',
          authorization: 'Bearer secret',
          'idempotency-key': 'i-1',
        });
      },
    );
  });

  test('a stream is asked for as one', async () => {
    await withVendor(
      (response) => response.writeHead(200, eventStream).end(opening + rest),
      async ({ url, door, received }) => {
        await readPieces(streamed(await sendToVendor(door, requestOf(url, { stream: true }))));
        expect(received[0]?.headers.accept).toBe('text/event-stream');
      },
    );
  });

  test.each([
    ['none of the caller', {}, {}, '2023-06-01'],
    ["the caller's", { 'anthropic-version': '2024-01-01' }, {}, '2024-01-01'],
    ["the provider row's before the caller's", { 'anthropic-version': '2024-01-01' }, { 'anthropic-version': '2025-01-01' }, '2025-01-01'],
  ])('a version on the messages dialect: %s', async (_name, passedHeaders, headers, version) => {
    await withVendor(
      (response) => response.end('{"content":[]}'),
      async ({ url, door, received }) => {
        await sendToVendor(door, requestOf(url, { codec: messages, forwardedHeaders: passedHeaders }, { headers }));
        expect(received[0]).toMatchObject({ path: '/v1/messages', headers: { 'anthropic-version': version } });
      },
    );
  });

  test("a caller's header never replaces the provider row's key", async () => {
    await withVendor(
      (response) => response.end(plain),
      async ({ url, door, received }) => {
        await sendToVendor(door, requestOf(url, { forwardedHeaders: { authorization: 'Bearer other' } }));
        expect(received[0]?.headers.authorization).toBe('Bearer secret');
      },
    );
  });
});

describe('a plain answer', () => {
  test('comes back byte for byte, with what was read of it', async () => {
    const body = ` ${plain}\n`;
    const answer = await ask((response) => response.writeHead(201, { 'content-type': 'application/json; charset=utf-8' }).end(body));
    expect(answer).toMatchObject({
      kind: 'plain',
      status: 201,
      contentType: 'application/json; charset=utf-8',
      bytes: Buffer.from(body),
      reading: { isFinal: true, turn: { text: 'Hi' } },
    });
  });

  test('without a content type is JSON', async () => {
    expect(await ask((response) => response.end(plain))).toMatchObject({ contentType: 'application/json' });
  });

  test.each<[string, Answerer, object]>([
    [
      'is none of the dialect',
      (response) => response.end('<html>'),
      { kind: 'unreadable', status: 200, message: 'the answer is no answer of chat' },
    ],
    [
      'is an error with status 200',
      (response) => response.end('{"error":{"message":"x"}}'),
      { kind: 'unreadable', status: 200, message: 'the answer is no answer of chat: x' },
    ],
    ['is empty', (response) => response.writeHead(204).end(), { kind: 'unreadable', status: 204 }],
    ['is a redirect', (response) => response.writeHead(302, { location: '/' }).end(), { kind: 'status', status: 302 }],
    [
      'breaks off',
      (response) => void response.writeHead(200, { 'content-length': '99' }).write(plain.slice(0, 9), () => response.destroy()),
      { kind: 'broken' },
    ],
  ])('that %s is thrown', async (_name, answer, error) => {
    await expect(ask(answer)).rejects.toMatchObject({ name: 'VendorError', ...error });
  });
});

describe('an error status', () => {
  test.each([
    [400, '{"error":{"message":"too long"}}', 'too long', 'the vendor answered 400: too long'],
    [401, '{"error":{"message":"no key"}}', 'no key', 'the vendor answered 401: no key'],
    [413, '<html>', null, 'the vendor answered 413'],
    [500, '', null, 'the vendor answered 500'],
    [
      529,
      '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
      'Overloaded',
      'the vendor answered 529: Overloaded',
    ],
  ])('%p is thrown with what the vendor says', async (status, body, vendorMessage, message) => {
    for (const stream of [false, true]) {
      await expect(ask((response) => response.writeHead(status).end(body), { stream })).rejects.toMatchObject({
        kind: 'status',
        status,
        vendorMessage,
        message,
        retryAfterMs: undefined,
      });
    }
  });

  test('what is plain text and no JSON is what the vendor says, a page of HTML is not', async () => {
    const answer = (type: string) => ask((response) => response.writeHead(400, { 'content-type': type }).end(' too long\n'));
    await expect(answer('text/plain; charset=utf-8')).rejects.toMatchObject({ vendorMessage: 'too long' });
    await expect(answer('text/html')).rejects.toMatchObject({ vendorMessage: null });
  });

  test('the key that the vendor repeats is not in its words, before the first piece of a stream neither', async () => {
    const error = JSON.stringify({ error: { message: 'Incorrect key: Bearer secret' } });
    await expect(ask((response) => response.writeHead(400).end(error))).rejects.toMatchObject({
      message: 'the vendor answered 400: Incorrect key: Bearer [key]',
      vendorMessage: 'Incorrect key: Bearer [key]',
    });
    await expect(ask((response) => response.writeHead(200, eventStream).end(`data: ${error}\n\n`), { stream: true })).rejects.toMatchObject(
      { message: 'the stream failed before its first piece: Incorrect key: Bearer [key]' },
    );
  });

  test("the vendor's words are cut", async () => {
    const long = JSON.stringify({ error: { message: 'x'.repeat(2000) } });
    const failed = ask((response) => response.writeHead(400).end(long));
    await expect(failed).rejects.toMatchObject({ vendorMessage: 'x'.repeat(500) });
  });

  test('a body that is too large, or breaks off, does not change what the status says', async () => {
    await expect(ask((response) => response.writeHead(503).end('x'.repeat(100_000)))).rejects.toMatchObject({
      kind: 'status',
      status: 503,
      vendorMessage: null,
    });
    await expect(
      ask((response) => void response.writeHead(503, { 'content-length': '9' }).write('x', () => response.destroy())),
    ).rejects.toMatchObject({ kind: 'status', status: 503 });
  });

  test('the pause of a 429 is read, from headers and body; other statuses have none', async () => {
    const refuse =
      (status: number, body = ''): Answerer =>
      (response) =>
        response.writeHead(status, { 'retry-after': 'Thu, 01 Jan 1970 00:00:07 GMT' }).end(body);
    await expect(ask(refuse(429), { now: () => 2000 })).rejects.toMatchObject({ status: 429, retryAfterMs: 5000 });
    await expect(ask(refuse(429, '{"error":{"code":"insufficient_quota"}}'))).rejects.toMatchObject({ retryAfterMs: null });
    await expect(ask((response) => response.writeHead(429).end())).rejects.toMatchObject({ retryAfterMs: undefined });
    await expect(ask(refuse(503))).rejects.toMatchObject({ status: 503, retryAfterMs: undefined });
  });

  test('leaves the connection usable', async () => {
    await withVendor(
      (response) => response.writeHead(500).end('{"error":{}}'),
      async ({ url, door, received }) => {
        for (const stream of [false, true]) {
          await expect(sendToVendor(door, requestOf(url, { stream }))).rejects.toBeInstanceOf(VendorError);
          await nextTurn();
        }
        expect(received.map(({ connection }) => connection)).toEqual([1, 1]);
      },
    );
  });
});

describe('a stream', () => {
  test('is handed over at its first piece, and comes byte for byte', async () => {
    let goOn = (): void => {};
    await withVendor(
      (response) => {
        response.writeHead(200, eventStream).write(`: wait\n\n${opening}`);
        goOn = () => response.end(rest);
      },
      async ({ url, door }) => {
        const answer = streamed(await sendToVendor(door, requestOf(url, { stream: true })));
        expect(answer.reading().turn.text).toBe('Hel');
        goOn();
        expect(await readPieces(answer)).toEqual({ text: `: wait\n\n${opening}${rest}`, end: { kind: 'whole' } });
        expect(answer.reading()).toMatchObject({ isFinal: true, turn: { text: 'Hello' } });
      },
    );
  });

  test.each<[string, Answerer, string]>([
    ['ends before its first piece', (response) => response.writeHead(200, eventStream).end(': hi\n\n'), 'broken'],
    ['begins with an error', (response) => response.writeHead(200, eventStream).end(streamOf({ error: { message: 'x' } })), 'broken'],
    [
      'breaks before its first piece',
      (response) => void response.writeHead(200, eventStream).write(': hi\n\n', () => response.destroy()),
      'broken',
    ],
    ['is no event stream', (response) => response.writeHead(200, { 'content-type': 'application/json' }).end(plain), 'unreadable'],
  ])('that %s is thrown, so that another model can be tried', async (_name, answer, fault) => {
    await expect(ask(answer, { stream: true })).rejects.toMatchObject({ name: 'VendorError', kind: fault, status: 200 });
  });

  test('is known by its content type in any case, or by none', async () => {
    for (const headers of [{ 'content-type': 'Text/Event-Stream' }, {}]) {
      expect(await ask((response) => response.writeHead(200, headers).end(opening + rest), { stream: true })).toMatchObject({
        kind: 'stream',
      });
    }
  });

  test('that breaks after its first piece ends with that, and does not throw', async () => {
    await withVendor(
      (response) => void response.writeHead(200, eventStream).write(opening, () => response.destroy()),
      async ({ url, door }) => {
        const answer = streamed(await sendToVendor(door, requestOf(url, { stream: true })));
        expect(await readPieces(answer)).toEqual({ text: opening, end: { kind: 'broken', message: 'the answer broke off', told: false } });
      },
    );
  });

  test.each([
    ['after its first piece', opening, `${opening}${streamOf({ error: { message: 'no such key: [key]' } })}`],
    ['before it', '', null],
  ])('that ends with an error (%s) tells no key that the vendor repeats', async (_when, begin, passedOn) => {
    const answer = ask(
      (response) => response.writeHead(200, eventStream).end(begin + streamOf({ error: { message: 'no such key: secret' } })),
      {
        stream: true,
      },
    );
    if (passedOn === null) await expect(answer).rejects.toMatchObject({ message: expect.stringMatching(/no such key: \[key\]$/) });
    else
      expect(await readPieces(streamed(await answer))).toEqual({
        text: passedOn,
        end: { kind: 'broken', message: 'no such key: [key]', told: true },
      });
  });

  test('that stops coming is broken after the idle time', async () => {
    await withVendor(
      (response) => response.writeHead(200, eventStream).write(opening),
      async ({ url, door, connectionClosed }) => {
        const answer = streamed(await sendToVendor(door, requestOf(url, { stream: true }, { idleTimeoutMs: 30 })));
        expect(await readPieces(answer)).toMatchObject({ end: { kind: 'broken', message: 'the answer stopped coming' } });
        await connectionClosed();
      },
    );
  });

  test('two streams in a row use one connection, however long they are', async () => {
    for (const content of ['x', 'x'.repeat(200_000)]) {
      const text = streamOf(delta(content)) + rest;
      await withVendor(
        (response) => {
          response.writeHead(200, eventStream).write(text);
          // The end of the body comes apart from its last event, as most vendors send it.
          setImmediate(() => response.end());
        },
        async ({ url, door, received }) => {
          for (let n = 0; n < 3; n += 1) {
            expect(await readPieces(streamed(await sendToVendor(door, requestOf(url, { stream: true }))))).toEqual({
              text,
              end: { kind: 'whole' },
            });
            for (let turn = 0; turn < 20; turn += 1) await nextTurn();
          }
          expect(received.map(({ connection }) => connection)).toEqual([1, 1, 1]);
        },
      );
    }
  });

  test('ends the request at the vendor when its reader stops early', async () => {
    await withVendor(
      (response) => response.writeHead(200, eventStream).write(opening),
      async ({ url, door, connectionClosed }) => {
        const pieces = streamed(await sendToVendor(door, requestOf(url, { stream: true }))).pieces();
        await pieces.next();
        await pieces.return({ kind: 'whole' });
        await connectionClosed();
      },
    );
  });

  test('throws aborted when our signal ends it: before its first piece, and after', async () => {
    for (const begin of ['', opening]) {
      await withVendor(
        (response) => response.writeHead(200, eventStream).write(`: hi\n\n${begin}`),
        async ({ url, door, received, connectionClosed }) => {
          const controller = new AbortController();
          const asked = sendToVendor(door, requestOf(url, { stream: true, signal: controller.signal }));
          const failed = asked.then((answer) => readPieces(streamed(answer)));
          while (received.length === 0) await nextTurn();
          if (begin !== '') await asked;
          controller.abort();
          await expect(failed).rejects.toMatchObject({ name: 'VendorError', kind: 'aborted' });
          await connectionClosed();
        },
      );
    }
  });
});
