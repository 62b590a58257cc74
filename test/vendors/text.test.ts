import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from '@jest/globals';
import { VendorError } from '../../src/core/errors.ts';
import { standardFormat } from '../../src/core/request-format.ts';
import { chat } from '../../src/dialects/chat/codec.ts';
import type { RouteCodec } from '../../src/dialects/contract/route-codec.ts';
import { messages } from '../../src/dialects/messages/codec.ts';
import { responses } from '../../src/dialects/passthrough/responses.ts';
import type { VendorHttpClient } from '../../src/vendors/http-client.ts';
import { nextChunk, type StreamEnd } from '../../src/vendors/stream.ts';
import type { StreamResponse, TextRequest, VendorResponse } from '../../src/vendors/text.ts';
import { sendToVendor } from '../../src/vendors/text.ts';
import type { Provider } from '../../src/vendors/vendor.ts';
import { streamOf } from '../dialects/events.ts';
import type { Responder } from './fake-vendor.ts';
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
      requests: standardFormat,
      secrets: ['secret'],
      connectTimeoutMs: 5000,
      firstByteTimeoutMs: 5000,
      idleTimeoutMs: 5000,
      ...provider,
    },
    codec: chat,
    model: 'm',
    body: Buffer.from('{"model":"m"}'),
    stream: false,
    forwardedHeaders: {},
    now: () => 0,
    ...more,
  };
}

/** Calls a vendor that responds like this. */
function ask(answer: Responder, more: Partial<TextRequest> = {}): Promise<VendorResponse> {
  return withVendor(answer, ({ url, httpClient }) => sendToVendor(httpClient, requestOf(url, more)));
}

function streamed(answer: VendorResponse): StreamResponse {
  if (answer.kind !== 'stream') throw new Error('the response is not a stream');
  return answer;
}

async function readChunks(answer: StreamResponse): Promise<{ text: string; end: StreamEnd }> {
  const pieces = answer.chunks();
  let text = '';
  for (;;) {
    const step = await nextChunk(pieces);
    if (step.kind !== 'chunk') {
      pieces.close();
      return { text, end: step };
    }
    text += step.bytes.toString();
  }
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('the request to the vendor', () => {
  test('sends the body unchanged with only the allowed headers', async () => {
    await withVendor(
      (response) => response.end(plain),
      async ({ url, httpClient, received }) => {
        await sendToVendor(httpClient, requestOf(url, { forwardedHeaders: { 'idempotency-key': 'i-1' } }));
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

  test('asks the vendor for an event stream if the call is streamed', async () => {
    await withVendor(
      (response) => response.writeHead(200, eventStream).end(opening + rest),
      async ({ url, httpClient, received }) => {
        await readChunks(streamed(await sendToVendor(httpClient, requestOf(url, { stream: true }))));
        expect(received[0]?.headers.accept).toBe('text/event-stream');
      },
    );
  });

  test.each([
    ['the default version', {}, {}, '2023-06-01'],
    ["the caller's", { 'anthropic-version': '2024-01-01' }, {}, '2024-01-01'],
    ["the provider's before the caller's", { 'anthropic-version': '2024-01-01' }, { 'anthropic-version': '2025-01-01' }, '2025-01-01'],
  ])('sends the anthropic-version header to messages vendors: %s', async (_name, passedHeaders, headers, version) => {
    await withVendor(
      (response) => response.end('{"content":[]}'),
      async ({ url, httpClient, received }) => {
        await sendToVendor(httpClient, requestOf(url, { codec: messages, forwardedHeaders: passedHeaders }, { headers }));
        expect(received[0]).toMatchObject({ path: '/v1/messages', headers: { 'anthropic-version': version } });
      },
    );
  });

  test("never replaces the provider's key with a header from the caller", async () => {
    await withVendor(
      (response) => response.end(plain),
      async ({ url, httpClient, received }) => {
        await sendToVendor(httpClient, requestOf(url, { forwardedHeaders: { authorization: 'Bearer other' } }));
        expect(received[0]?.headers.authorization).toBe('Bearer secret');
      },
    );
  });
});

describe('a plain response from a vendor', () => {
  test("returns the vendor's response byte for byte along with its text and usage", async () => {
    const body = ` ${plain}\n`;
    const answer = await ask((response) => response.writeHead(201, { 'content-type': 'application/json; charset=utf-8' }).end(body));
    expect(answer).toMatchObject({
      kind: 'plain',
      status: 201,
      contentType: 'application/json; charset=utf-8',
      bytes: Buffer.from(body),
      summary: { isFinal: true, turn: { text: 'Hi' } },
    });
  });

  test('treats a response without a content type as JSON', async () => {
    expect(await ask((response) => response.end(plain))).toMatchObject({ contentType: 'application/json' });
  });

  test.each<[string, Responder, object]>([
    [
      "isn't in the dialect's format",
      (response) => response.end('<html>'),
      { kind: 'unreadable', status: 200, message: 'the response is not a valid chat response' },
    ],
    [
      'is an error with status 200',
      (response) => response.end('{"error":{"message":"x"}}'),
      { kind: 'unreadable', status: 200, message: 'the response is not a valid chat response: x' },
    ],
    ['is empty', (response) => response.writeHead(204).end(), { kind: 'unreadable', status: 204 }],
    ['is a redirect', (response) => response.writeHead(302, { location: '/' }).end(), { kind: 'status', status: 302 }],
    [
      'breaks off',
      (response) => void response.writeHead(200, { 'content-length': '99' }).write(plain.slice(0, 9), () => response.destroy()),
      { kind: 'broken' },
    ],
  ])("throws an error if the vendor's response %s", async (_name, answer, error) => {
    await expect(ask(answer)).rejects.toMatchObject({ name: 'VendorError', ...error });
  });
});

describe('an error status from a vendor', () => {
  test.each([
    [400, '{"error":{"message":"too long"}}', 'too long', 'the vendor responded with 400: too long'],
    [413, '<html>', null, 'the vendor responded with 413'],
    [500, '', null, 'the vendor responded with 500'],
    [
      529,
      '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
      'Overloaded',
      'the vendor responded with 529: Overloaded',
    ],
  ])("throws an error with the vendor's message for %p", async (status, body, vendorMessage, message) => {
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

  test.each([
    ['plain text', 'text/plain; charset=utf-8', ' too long\n', 'too long'],
    ['text without a content type', null, 'too long', 'too long'],
    ['an HTML page', 'text/html', '<html><style>p {}</style><h1>Bad Request</h1>\n<p>too long</p></html>', 'Bad Request too long'],
    ['text in another encoding', 'text/plain', Buffer.from([0x80]), null],
    ['JSON without a message', 'application/json', '{}', null],
    ['another content type', 'image/png', 'too long', null],
  ])('reads the error message from %s', async (_title, type, body, vendorMessage) => {
    const refused = ask((response) => response.writeHead(400, type === null ? {} : { 'content-type': type }).end(body));
    await expect(refused).rejects.toMatchObject({ vendorMessage });
  });

  test.each([
    ['{"request_id":"later"}', true],
    ['{}', false],
    ['{"error":true}', false],
    ['{"success":false,"errors":[]}', false],
    ['{"error":{"code":429}}', false],
    ['{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}', false],
    ['not JSON', false],
    [`{"data":"${'x'.repeat(1_100_000)}"}`, true],
    [`<html>${'x'.repeat(1_100_000)}`, false],
  ])('knows whether the vendor may bill a successful response of another kind: %.40s', async (body, mayBeBilled) => {
    for (const stream of [false, true]) {
      const asked = ask((response) => response.writeHead(200, { 'content-type': 'application/json' }).end(body), { stream });
      await expect(asked).rejects.toMatchObject({ kind: 'unreadable', mayBeBilled });
    }
  });

  test("never reveals the provider's key, even in an error before the first chunk of a stream", async () => {
    const error = JSON.stringify({ error: { message: 'Incorrect key: Bearer secret' } });
    await expect(ask((response) => response.writeHead(400).end(error))).rejects.toMatchObject({
      message: 'the vendor responded with 400: Incorrect key: Bearer [key]',
      vendorMessage: 'Incorrect key: Bearer [key]',
    });
    await expect(ask((response) => response.writeHead(200, eventStream).end(`data: ${error}\n\n`), { stream: true })).rejects.toMatchObject(
      { message: 'the stream failed before its first chunk: Incorrect key: Bearer [key]' },
    );
  });

  test.each([401, 403])("hides the vendor's message for a %d, because it's about the provider's account", async (status) => {
    const error = { message: 'Project `proj_Ab12Cd34Ef56` of Acme Inc. has no access', code: 'model_not_found' };
    await expect(ask((response) => response.writeHead(status).end(JSON.stringify({ error })))).rejects.toMatchObject({
      message: `the vendor responded with ${status}`,
      vendorMessage: null,
    });
  });

  test.each([
    ['Incorrect API key provided: sk-proj-********************wxyz.', 'Incorrect API key provided: [key].'],
    ['Invalid API Key: sk-ab...wxyz', 'Invalid API Key: [key]'],
    [
      'Rate limit reached for m in organization org-Ab12Cd34Ef on tokens per min',
      'Rate limit reached for m in organization [account] on tokens per min',
    ],
    ['arn:aws:iam::123456789012:user/ada is not authorized', '[account] is not authorized'],
    ['Quota of project 123456789012 is exhausted', 'Quota of [account] is exhausted'],
    ['Use **bold**, an org-structure... or user_id', 'Use **bold**, an org-structure... or user_id'],
  ])("removes masked keys and account ids from the vendor's message: %s", async (message, stripped) => {
    for (const status of [400, 402, 429, 500]) {
      const error = JSON.stringify({ error: { message } });
      await expect(ask((response) => response.writeHead(status).end(error))).rejects.toMatchObject({ vendorMessage: stripped });
    }
  });

  test('truncates a long error message with an ellipsis, and quotes only its beginning in the error', async () => {
    const askWith = (message: string, status = 400) =>
      ask((response) => response.writeHead(status).end(JSON.stringify({ error: { message } })));
    const long = 'x'.repeat(4_094);
    await expect(askWith(`${long}yz`)).rejects.toMatchObject({
      vendorMessage: `${long}yz`,
      message: `the vendor responded with 400: ${'x'.repeat(499)}…`,
    });
    for (const rest of ['yzz', '😀zz']) {
      const cut = rest.startsWith('y') ? `${long}y…` : `${long}…`;
      await expect(askWith(long + rest)).rejects.toMatchObject({ vendorMessage: cut });
    }
    await expect(askWith('x'.repeat(500), 500)).rejects.toMatchObject({ message: `the vendor responded with 500: ${'x'.repeat(500)}` });
  });

  test('finds the message of an error that quotes the prompt', async () => {
    const error = { input: 'x'.repeat(500_000), message: 'Too many tokens.', code: 'context_length_exceeded' };
    await expect(ask((response) => response.writeHead(400).end(JSON.stringify({ error })))).rejects.toMatchObject({
      vendorMessage: 'Too many tokens.',
      report: { code: 'context_length_exceeded' },
    });
  });

  test('reports the error status even if the body is too large or is cut off', async () => {
    await expect(ask((response) => response.writeHead(503).end('x'.repeat(2_000_000)))).rejects.toMatchObject({
      kind: 'status',
      status: 503,
      vendorMessage: null,
    });
    await expect(
      ask((response) => void response.writeHead(503, { 'content-length': '9' }).write('x', () => response.destroy())),
    ).rejects.toMatchObject({ kind: 'status', status: 503 });
  });

  test('reads a retry delay only for 429, 503 and 529', async () => {
    const refuse =
      (status: number, body = ''): Responder =>
      (response) =>
        response.writeHead(status, { 'retry-after': 'Thu, 01 Jan 1970 00:00:07 GMT' }).end(body);
    await expect(ask(refuse(429), { now: () => 2000 })).rejects.toMatchObject({ status: 429, retryAfterMs: 5000 });
    await expect(ask(refuse(429, '{"error":{"code":"insufficient_quota"}}'))).rejects.toMatchObject({ retryAfterMs: null });
    await expect(ask((response) => response.writeHead(429).end())).rejects.toMatchObject({ retryAfterMs: undefined });
    for (const status of [503, 529]) await expect(ask(refuse(status))).rejects.toMatchObject({ status, retryAfterMs: 7000 });
    await expect(ask(refuse(500))).rejects.toMatchObject({ status: 500, retryAfterMs: undefined });
  });

  test("shortens the vendor's error code and type, and removes the provider's key from them", async () => {
    const error = { message: 'x', type: 'of secret', code: 'c'.repeat(1000), param: ['not', 'text'] };
    await expect(ask((response) => response.writeHead(400).end(JSON.stringify({ error })))).rejects.toMatchObject({
      report: { type: 'of [key]', code: 'c'.repeat(128), param: null },
    });
  });

  test('reports a prompt that is too long as a 400, even after status 200', async () => {
    const message = 'the request (9412 tokens) exceeds the available context size (8192 tokens)';
    const error = JSON.stringify({ error: { message, type: 'exceed_context_size_error', code: 400 } });
    const refusal = {
      kind: 'status',
      status: 400,
      vendorMessage: message,
      report: { code: 'context_length_exceeded', windowTokens: 8192 },
    };
    await expect(ask((response) => response.writeHead(400).end(error))).rejects.toMatchObject(refusal);
    await expect(ask((response) => response.end(error))).rejects.toMatchObject(refusal);
    await expect(ask((response) => response.writeHead(200, eventStream).end(`data: ${error}\n\n`), { stream: true })).rejects.toMatchObject(
      refusal,
    );
  });

  const overflow = { message: 'Please shorten it.', code: 'context_length_exceeded', type: 'invalid_request_error' };
  const created = streamOf({ type: 'response.created', response: {} }, { type: 'response.in_progress', response: {} });
  test.each<[string, RouteCodec, string, object]>([
    ['chat', chat, streamOf({ choices: [] }, { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] }), { error: overflow }],
    ['messages', messages, streamOf({ type: 'message_start', message: {} }, { type: 'ping' }), { type: 'error', error: overflow }],
    ['responses', responses, created, { type: 'response.failed', response: { error: overflow } }],
    ['responses', responses, created, { ...overflow, type: 'error' }],
    ['responses', responses, '', { type: 'error', error: overflow }],
  ])('reports a prompt that is too long after the opening of a %s stream', async (_route, codec, begin, error) => {
    const answer: Responder = (response) =>
      void response.writeHead(200, eventStream).write(begin || ': hi\n\n', () => setImmediate(() => response.end(streamOf(error))));
    await expect(ask(answer, { codec, stream: true, mayFailOver: true })).rejects.toMatchObject({
      kind: 'status',
      status: 400,
      vendorMessage: overflow.message,
      report: { code: overflow.code },
    });
  });

  test("leaves the vendor's connection reusable after an error", async () => {
    await withVendor(
      (response) => response.writeHead(500).end('{"error":{}}'),
      async ({ url, httpClient, received }) => {
        for (const stream of [false, true]) {
          await expect(sendToVendor(httpClient, requestOf(url, { stream }))).rejects.toBeInstanceOf(VendorError);
          await nextTurn();
        }
        expect(received.map(({ connection }) => connection)).toEqual([1, 1]);
      },
    );
  });
});

describe('a stream from a vendor', () => {
  test('starts relaying a stream with its first chunk, byte for byte', async () => {
    let goOn = (): void => {};
    await withVendor(
      (response) => {
        response.writeHead(200, eventStream).write(`: wait\n\n${opening}`);
        goOn = () => response.end(rest);
      },
      async ({ url, httpClient }) => {
        const answer = streamed(await sendToVendor(httpClient, requestOf(url, { stream: true })));
        expect(answer.summary().turn.text).toBe('Hel');
        goOn();
        expect(await readChunks(answer)).toEqual({ text: `: wait\n\n${opening}${rest}`, end: { kind: 'whole' } });
        expect(answer.summary()).toMatchObject({ isFinal: true, turn: { text: 'Hello' } });
      },
    );
  });

  test.each<[string, Responder, string]>([
    ['ends before its first chunk', (response) => response.writeHead(200, eventStream).end(': hi\n\n'), 'broken'],
    ['begins with an error', (response) => response.writeHead(200, eventStream).end(streamOf({ error: { message: 'x' } })), 'broken'],
    [
      'breaks off before its first chunk',
      (response) => void response.writeHead(200, eventStream).write(': hi\n\n', () => response.destroy()),
      'broken',
    ],
    ["isn't an event stream", (response) => response.writeHead(200, { 'content-type': 'application/json' }).end(plain), 'unreadable'],
  ])('throws an error if the stream %s, so that another model can be tried', async (_name, answer, fault) => {
    await expect(ask(answer, { stream: true })).rejects.toMatchObject({ name: 'VendorError', kind: fault, status: 200 });
  });

  test('throws a 429 if the stream begins with a rate limit error', async () => {
    const error = { type: 'error', error: { type: 'rate_limit_error', message: 'Too many tokens' } };
    const answer: Responder = (response) => response.writeHead(200, eventStream).end(`event: error\n${streamOf(error)}`);
    await expect(ask(answer, { stream: true, codec: messages })).rejects.toMatchObject({
      kind: 'status',
      status: 429,
      message: 'Too many tokens',
    });
  });

  test('accepts an event stream whose content type is missing or in different case', async () => {
    for (const headers of [{ 'content-type': 'Text/Event-Stream' }, {}]) {
      expect(await ask((response) => response.writeHead(200, headers).end(opening + rest), { stream: true })).toMatchObject({
        kind: 'stream',
      });
    }
  });

  const role = streamOf({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] });

  test("relays a stream's opening together with its content if that follows immediately", async () => {
    const answer = await ask((response) => response.writeHead(200, eventStream).end(role + opening + rest), {
      stream: true,
      mayFailOver: true,
    });
    expect(await readChunks(streamed(answer))).toEqual({ text: role + opening + rest, end: { kind: 'whole' } });
  });

  test('starts relaying a stream after its opening if the content comes late', async () => {
    let release: () => void = () => undefined;
    await withVendor(
      (response) =>
        void response.writeHead(200, eventStream).write(role, () => {
          release = () => response.end(opening + rest);
        }),
      async ({ url, httpClient }) => {
        const answer = streamed(await sendToVendor(httpClient, requestOf(url, { stream: true, mayFailOver: true })));
        release();
        expect(await readChunks(answer)).toEqual({ text: role + opening + rest, end: { kind: 'whole' } });
      },
    );
  });

  test('starts relaying a stream even if the vendor falls silent after its opening', async () => {
    await withVendor(
      (response) => void response.writeHead(200, eventStream).write(role),
      async ({ url, httpClient }) => {
        const chunks = streamed(await sendToVendor(httpClient, requestOf(url, { stream: true, mayFailOver: true }))).chunks();
        expect(await nextChunk(chunks)).toMatchObject({ bytes: Buffer.from(role), isLast: false });
        chunks.close();
      },
    );
  });

  test("doesn't blame the vendor if the gateway stops while it holds back a stream's opening", async () => {
    await withVendor(
      (response) => void response.writeHead(200, eventStream).write(role),
      async ({ url, httpClient }) => {
        const answer = sendToVendor(httpClient, requestOf(url, { stream: true, firstContentTimeoutMs: 600_000 }));
        setTimeout(httpClient.abort, 300);
        await expect(answer).rejects.toMatchObject({ kind: 'stopped', message: 'the gateway is stopping' });
      },
    );
  });

  test('reports a broken stream instead of throwing if it is cut off after the first chunk', async () => {
    await withVendor(
      (response) => void response.writeHead(200, eventStream).write(opening, () => response.destroy()),
      async ({ url, httpClient }) => {
        const answer = streamed(await sendToVendor(httpClient, requestOf(url, { stream: true })));
        expect(await readChunks(answer)).toEqual({
          text: opening,
          end: { kind: 'broken', message: 'the response ended early', errorForwarded: false },
        });
      },
    );
  });

  test.each([
    ['after its first chunk', opening, `${opening}${streamOf({ error: { message: 'no such key: [key]' } })}`],
    ['before its first chunk', '', null],
  ])("doesn't reveal the provider's key in a stream that ends with an error (%s)", async (_when, begin, passedOn) => {
    const answer = ask(
      (response) => response.writeHead(200, eventStream).end(begin + streamOf({ error: { message: 'no such key: secret' } })),
      {
        stream: true,
      },
    );
    if (passedOn === null) await expect(answer).rejects.toMatchObject({ message: expect.stringMatching(/no such key: \[key\]$/) });
    else
      expect(await readChunks(streamed(await answer))).toEqual({
        text: passedOn,
        end: { kind: 'broken', message: 'no such key: [key]', errorForwarded: true },
      });
  });

  test('aborts a stalled stream after the idle timeout', async () => {
    await withVendor(
      (response) => response.writeHead(200, eventStream).write(opening),
      async ({ url, httpClient, connectionClosed }) => {
        const answer = streamed(await sendToVendor(httpClient, requestOf(url, { stream: true }, { idleTimeoutMs: 30 })));
        expect(await readChunks(answer)).toMatchObject({ end: { kind: 'broken', message: 'the response stalled' } });
        await connectionClosed();
      },
    );
  });

  test('uses the same vendor connection for the next stream', async () => {
    for (const content of ['x', 'x'.repeat(200_000)]) {
      const text = streamOf(delta(content)) + rest;
      await withVendor(
        (response) => {
          response.writeHead(200, eventStream).write(text);
          // Most vendors send the end of the body separately from its last event, so we do that too.
          setImmediate(() => response.end());
        },
        async ({ url, httpClient, received }) => {
          for (let n = 0; n < 3; n += 1) {
            expect(await readChunks(streamed(await sendToVendor(httpClient, requestOf(url, { stream: true }))))).toEqual({
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

  test("doesn't keep the vendor's headers in memory while it relays the stream", async () => {
    await withVendor(
      (response) => response.writeHead(200, eventStream).write(opening),
      async ({ url, httpClient }) => {
        const headers: WeakRef<object>[] = [];
        const send: VendorHttpClient['send'] = async (request) => {
          const response = await httpClient.send(request);
          headers.push(new WeakRef(response.headers));
          return response;
        };
        const stream = streamed(await sendToVendor({ ...httpClient, send }, requestOf(url, { stream: true })));
        setFlagsFromString('--expose-gc');
        const collect = runInNewContext('gc') as () => void;
        // Weak references hold their objects until the end of the turn.
        await nextTurn();
        collect();
        expect(headers.map((reference) => reference.deref())).toEqual([undefined]);
        stream.chunks().close();
      },
    );
  });

  test('cancels the vendor request if the caller stops reading early', async () => {
    await withVendor(
      (response) => response.writeHead(200, eventStream).write(opening),
      async ({ url, httpClient, connectionClosed }) => {
        const pieces = streamed(await sendToVendor(httpClient, requestOf(url, { stream: true }))).chunks();
        await nextChunk(pieces);
        pieces.close();
        await connectionClosed();
      },
    );
  });

  test('throws an aborted error if the signal is aborted', async () => {
    for (const begin of ['', opening]) {
      await withVendor(
        (response) => response.writeHead(200, eventStream).write(`: hi\n\n${begin}`),
        async ({ url, httpClient, received, connectionClosed }) => {
          const controller = new AbortController();
          const asked = sendToVendor(httpClient, requestOf(url, { stream: true, signal: controller.signal }));
          const failed = asked.then((answer) => readChunks(streamed(answer)));
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
