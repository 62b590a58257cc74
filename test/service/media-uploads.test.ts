/**
 * Tests transcriptions, translations and image edits, i.e. multipart uploads to a scripted vendor, using the openai SDK
 * and raw requests.
 */
import { once } from 'node:events';
import { Agent, createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import OpenAI, { toFile } from 'openai';
import { flac, mp3, mp4, ogg, wav, webm } from '../support/audio.ts';
import { callsOf, eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { expectRouteError } from './inference-routes.ts';
import { issueKey, rowOf } from './media-routes.ts';

const mebibyte = 1024 * 1024;
const image = Buffer.from('a picture').toString('base64');

interface Received {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

let received: Received[] = [];
let answer: (response: ServerResponse, received: Received) => unknown = () => undefined;
let onFirstBytes: () => void = () => undefined;
const vendor = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.once('data', () => onFirstBytes());
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const { url: path = '', headers } = request;
    const complete = { path, headers, body: Buffer.concat(chunks) };
    received.push(complete);
    answer(response, complete);
  });
});
let vendorUrl = '';
beforeAll(async () => {
  await once(vendor.listen(0, '127.0.0.1'), 'listening');
  vendorUrl = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`;
});
afterAll(async () => {
  vendor.closeAllConnections();
  await new Promise((closed) => vendor.close(closed));
});
beforeEach(() => {
  received = [];
  onFirstBytes = () => undefined;
});

const shared = shareGateway({
  database: 'any',
  yaml: (_demoUrl, deadUrl) => `
providers:
  own: { base_url: ${vendorUrl}/v1, api_key: vendor-key, dialect: chat }
  art: { base_url: ${vendorUrl}/v1, api_key: vendor-key, dialect: chat, serves: [images], image_shape: artifacts }
  dead: { base_url: ${deadUrl}/v1, api_key: vendor-key, dialect: chat }
  text: { base_url: ${vendorUrl}/v1, api_key: vendor-key, dialect: chat, serves: [chat] }
models:
  own/whisper: { kind: transcriptions, per_second: 0.0001 }
  own/tokens: { kind: transcriptions, input: 2.5, output: 10 }
  own/unpriced: { kind: transcriptions }
  own/per-image: { kind: images, per_image: 0.1 }
  own/gpt-image-2: { kind: images, input: 5, image_input: 8, output: 30, takes: [quality, output_format] }
transcription_tiers: { standard: [own/whisper] }
image_tiers: { standard: [own/gpt-image-2] }
`,
});
let gateway: TestGateway;
let count = 0;
beforeEach(async () => {
  count += 1;
  gateway = await shared().withProject(`uploads-${count}`);
});

const sdk = () => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, maxRetries: 0 });
const audio = (bytes = Buffer.from('RIFF some audio')) => toFile(bytes, 'speech.wav', { type: 'audio/wav' });
const json = (body: unknown) => (response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const text = (type: string, body: string) => (response: ServerResponse) => response.writeHead(200, { 'content-type': type }).end(body);
const formOf = ({ headers, body }: Received): Promise<FormData> =>
  new Response(new Uint8Array(body), { headers: { 'content-type': headers['content-type'] ?? '' } }).formData();
const lastForm = async (): Promise<FormData> => formOf(received.at(-1) as Received);

/** Sends raw bytes as multipart. */
const post = (path: string, body: Buffer | string, headers: Record<string, string> = {}) =>
  gateway.call(path, Buffer.from(body), { 'content-type': 'multipart/form-data; boundary=x', ...headers });
const field = (name: string, value: string) => `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const filePart = (value: string, name = 'file') =>
  `--x\r\nContent-Disposition: form-data; name="${name}"; filename="a.mp3"\r\nContent-Type: audio/mpeg\r\nX-Own: 1\r\n\r\n${value}\r\n`;
const end = '--x--\r\n';
const audioForm = (file: Buffer, model = 'own/whisper') => {
  const [head = '', tail = ''] = filePart('<file>').split('<file>');
  return Buffer.concat([Buffer.from(field('model', model) + head), file, Buffer.from(tail + end)]);
};

describe('audio.transcriptions.create', () => {
  it('returns the vendor’s transcript unchanged', async () => {
    const sent = { text: 'Hello.', usage: { type: 'duration', seconds: 30 }, own: [1.0] };
    answer = json(sent);
    const result = await sdk().audio.transcriptions.create({ file: await audio(), model: 'own/whisper', language: 'en' });
    expect(result).toEqual(sent);
    const [request] = received;
    expect([request?.path, request?.headers.authorization]).toEqual(['/v1/audio/transcriptions', 'Bearer vendor-key']);
    expect(Number(request?.headers['content-length'])).toBe(request?.body.length);
    const form = await lastForm();
    expect([form.get('model'), form.get('language')]).toEqual(['whisper', 'en']);
    const file = form.get('file') as File;
    expect([file.name, file.type, await file.text()]).toEqual(['speech.wav', 'audio/wav', 'RIFF some audio']);
    expect(await rowOf(gateway)).toMatchObject({
      ...{
        route: 'transcriptions',
        model: 'own/whisper',
        outcome: 'ok',
        status: 200,
        cost: 0.003,
        estimated: false,
      },
    });
  });

  it.each([
    ['FLAC', flac(3_600)],
    ['FLAC that claims to be short', flac(1)],
    ['WAV with a low sample rate', wav({ rate: 10, seconds: 3_600 })],
    ['an unknown format', Buffer.alloc(20_000)],
  ])('runs one transcription at a time if a small file may contain hours of audio: %s', async (_format, file) => {
    const seconds = 3_600;
    answer = (response) => setTimeout(() => json({ text: '', duration: seconds })(response), 200);
    const { key } = await issueKey(gateway, { ceilings: { cost: 0.5 } });
    const send = () => post('/v1/audio/transcriptions', audioForm(file), { authorization: `Bearer ${key}` });
    const statuses = (await Promise.all(Array.from({ length: 10 }, send))).map(({ status }) => status);
    expect(statuses.filter((status) => status !== 429)).toEqual([200]);
    // The second hour exceeds the ceiling, so there's no third one.
    expect([(await send()).status, (await send()).status]).toEqual([200, 429]);
  });

  it.each([
    ['WAV', wav({ rate: 16_000, seconds: 10 })],
    ['MP3', mp3(10)],
  ])('runs several transcriptions at a time if the file size limits their length: %s', async (_format, file) => {
    let running: ServerResponse[] = [];
    answer = (response) => {
      running.push(response);
      if (running.length < 5) return;
      for (const waiting of running) json({ text: '', duration: 10 })(waiting);
      running = [];
    };
    const { key } = await issueKey(gateway, { ceilings: { cost: 0.1 } });
    const send = () => post('/v1/audio/transcriptions', audioForm(file), { authorization: `Bearer ${key}` });
    const statuses = (await Promise.all(Array.from({ length: 5 }, send))).map(({ status }) => status);
    expect(statuses).toEqual([200, 200, 200, 200, 200]);
  });

  it.each([
    ['text', text('text/plain', '\n')],
    ['srt', text('text/plain', '1\n00:00:00,000 --> 00:00:04,000\nHello\n')],
    ['json', json({ text: '' })],
    ['a stream', text('text/event-stream', `data: ${JSON.stringify({ type: 'transcript.text.done', text: '' })}\n\n`)],
    ['a stream without usage', text('text/event-stream', 'data: {}\n\n')],
  ])('charges for silent recordings if the vendor reports no duration: %s', async (_format, respond) => {
    answer = respond;
    for (const [file, seconds] of [
      ...[
        [flac(3_600), 3_600],
        [ogg(3_600), 3_600],
        [mp4(3_600, 0), 3_600],
        [webm(3_600), 3_600],
      ],
      ...[
        [mp3(60), 60],
        [wav({ rate: 8_000, seconds: 60 }), 60],
        [Buffer.alloc(480_000), 60],
      ],
    ] as [Buffer, number][]) {
      expect((await post('/v1/audio/transcriptions', audioForm(file))).status).toBe(200);
      const { cost, estimated } = await rowOf(gateway);
      expect([estimated, Number(cost) >= seconds / 10_000, Number(cost) < (seconds * 1.01) / 10_000]).toEqual([true, true, true]);
    }
  });

  it('estimates the input and output tokens of a transcription if the vendor reports none', async () => {
    answer = text('text/plain', 'a'.repeat(40_000));
    await post('/v1/audio/transcriptions', audioForm(flac(3_600), 'own/tokens'));
    const { tokens, estimated } = await rowOf(gateway);
    expect({ tokens, estimated }).toMatchObject({ tokens: { input: 36_000, output: 10_000 }, estimated: true });
  });

  it('charges for the tokens that the vendor reports', async () => {
    answer = json({ text: 'Hello.', usage: { type: 'tokens', input_tokens: 1_000, output_tokens: 100, total_tokens: 1_100 } });
    await sdk().audio.transcriptions.create({ model: 'own/tokens', file: await audio() });
    expect(await rowOf(gateway)).toMatchObject({ cost: 0.0035, estimated: false, tokens: { input: 1_000, output: 100 } });
  });

  it.each([
    ['text', 'text/plain; charset=utf-8', 'a'.repeat(150), 10],
    ['srt', 'text/plain; charset=utf-8', '1\n00:00:00,000 --> 00:00:04,000\nHello\n\n2\n00:00:04,000 --> 00:01:12,500\nfox.\n', 72.5],
    ['vtt', 'text/vtt', 'WEBVTT\n\n00:00.000 --> 00:20.000\nHello\n', 20],
  ] as const)('returns a transcript as %s and marks its cost as estimated', async (format, type, body, seconds) => {
    answer = text(type, body);
    const result = await sdk().audio.transcriptions.create({ file: await audio(), model: 'standard', response_format: format });
    expect(result).toBe(body);
    expect(await rowOf(gateway)).toMatchObject({ cost: seconds / 10_000, estimated: true });
  });

  it('forwards transcription events as they arrive', async () => {
    const delta = { type: 'transcript.text.delta', delta: 'Hel' };
    const done = {
      type: 'transcript.text.done',
      text: 'Hello.',
      usage: { type: 'tokens', input_tokens: 10, output_tokens: 20, total_tokens: 30 },
    };
    let finish: () => void = () => undefined;
    answer = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
      response.write(`data: ${JSON.stringify(delta)}\n\n`);
      finish = () => response.end(`data: ${JSON.stringify(done)}\n\n`);
    };
    const stream = await sdk().audio.transcriptions.create({ file: await audio(), model: 'own/tokens', stream: true });
    const events: unknown[] = [];
    for await (const event of stream) {
      events.push(event);
      // The first event arrives before the vendor has sent the second one.
      if (events.length === 1) finish();
    }
    expect(events).toEqual([delta, done]);
    expect(await rowOf(gateway)).toMatchObject({ cost: 0.000225, estimated: false });
  });

  it('charges an estimated cost if the vendor reports no usage', async () => {
    answer = json({ text: '' });
    await sdk().audio.transcriptions.create({ file: await audio(Buffer.alloc(80_000)), model: 'own/tokens' });
    expect(await rowOf(gateway)).toMatchObject({ estimated: true });
    expect((await rowOf(gateway)).cost).toBeGreaterThan(0);
    await sdk().audio.transcriptions.create({ file: await audio(), model: 'own/unpriced' });
    expect(await rowOf(gateway)).toMatchObject({ price_unknown: true });
  });
});

it.each(['transcriptions', 'translations'] as const)(
  'sends everything after the first slash as the name of the model of %s',
  async (route) => {
    answer = json({ text: 'Hello.', duration: 3 });
    const response = await post(`/v1/audio/${route}`, audioForm(Buffer.from('RIFF'), 'own/openai/whisper-large'));
    expect([response.status, response.headers.get('x-gateway-model')]).toEqual([200, 'own/openai/whisper-large']);
    expect((await lastForm()).get('model')).toBe('openai/whisper-large');
    for (const model of ['own/a//b', 'own/a/../b', 'own/a/'])
      await expectRouteError(
        await post(`/v1/audio/${route}`, audioForm(Buffer.from('RIFF'), model)),
        { name: route },
        { status: 400, code: 'no_route' },
      );
    expect(received).toHaveLength(1);
  },
);

describe('audio.translations.create', () => {
  it("calls the vendor's translations route", async () => {
    answer = json({ text: 'Hello.', task: 'translate', duration: 3, language: 'english' });
    const result = await sdk().audio.translations.create({ file: await audio(), model: 'whisper', response_format: 'verbose_json' });
    expect(result).toMatchObject({ text: 'Hello.', duration: 3 });
    expect(received[0]?.path).toBe('/v1/audio/translations');
    expect(await rowOf(gateway)).toMatchObject({ route: 'transcriptions', cost: 0.0003, estimated: false });
  });
});

describe('images.edit', () => {
  const details = { image_tokens: 800, text_tokens: 200 };
  const usage = { input_tokens: 1_000, input_tokens_details: details, output_tokens: 2_000, total_tokens: 3_000 };

  it('forwards several images and a mask for an image edit', async () => {
    const sent = { created: 1, data: [{ b64_json: image }], usage, quality: 'low' };
    answer = json(sent);
    const file = (name: string) => toFile(Buffer.from(name), `${name}.png`, { type: 'image/png' });
    const result = await sdk().images.edit({
      image: [await file('one'), await file('two')],
      mask: await file('mask'),
      prompt: 'a fox',
      model: 'standard',
      quality: 'low',
    });
    expect(result).toMatchObject(sent);
    const form = await lastForm();
    expect(received[0]?.path).toBe('/v1/images/edits');
    expect([form.get('model'), form.get('quality'), form.getAll('image[]').length, (form.get('mask') as File).name]).toEqual([
      ...['gpt-image-2', 'low', 2, 'mask.png'],
    ]);
    expect(await rowOf(gateway)).toMatchObject({ route: 'images', model: 'own/gpt-image-2', cost: 0.0674, estimated: false });
  });

  it('charges for a streamed image edit based on the usage in the completed event', async () => {
    const completed = { type: 'image_edit.completed', b64_json: image, usage };
    answer = text('text/event-stream', `event: image_edit.completed\ndata: ${JSON.stringify(completed)}\n\n`);
    const stream = await sdk().images.edit({
      image: await toFile(Buffer.from('x'), 'x.png'),
      prompt: 'a fox',
      model: 'standard',
      stream: true,
    });
    const events: unknown[] = [];
    for await (const event of stream) events.push(event);
    expect(events).toEqual([completed]);
    expect(await rowOf(gateway)).toMatchObject({ cost: 0.0674, estimated: false });
  });

  it.each([
    ['own/per-image', 0.4],
    ['own/gpt-image-2', 4 * 0.0674],
  ])('charges for every image in a streamed edit with %s', async (model, cost) => {
    const completed = { type: 'image_edit.completed', b64_json: image, usage };
    const event = `event: image_edit.completed\ndata: ${JSON.stringify(completed)}\n\n`;
    answer = text('text/event-stream', event.repeat(4));
    const body = field('model', model) + filePart('x', 'image') + field('n', '4') + field('stream', 'true') + end;
    expect(await (await post('/v1/images/edits', body)).text()).toBe(event.repeat(4));
    expect(await rowOf(gateway)).toMatchObject({ cost: expect.closeTo(cost, 9), estimated: false });
  });

  it('returns edited images as base64 even if the vendor sends URLs', async () => {
    answer = (response, { path, headers }) =>
      path === '/x.png' ? response.end('a picture') : json({ created: 1, data: [{ url: `http://${headers.host}/x.png` }] })(response);
    const edit = { image: await toFile(Buffer.from('x'), 'x.png'), prompt: 'a fox', model: 'standard' };
    expect((await sdk().images.edit(edit)).data).toEqual([{ b64_json: image }]);
    const { data, response } = await sdk()
      .images.edit({ ...edit, response_format: 'url' })
      .withResponse();
    expect([data.data, response.headers.get('x-gateway-warning')]).toEqual([
      [{ b64_json: image }],
      'response_format was ignored: images are returned as b64_json',
    ]);
  });

  it.each([
    ['all images if n follows the file', (file: string) => file + field('n', '10')],
    ['all images if n has a leading zero', (file: string) => file + field('n', '010')],
    ['all input images', (file: string) => file.repeat(12)],
    ['images of the requested size', (file: string) => file + field('size', '4096x4096')],
  ])('reserves the cost of %s for an image edit', async (_what, parts) => {
    const respond = json({ created: 1, data: [{ b64_json: image }], usage });
    let finish: () => void = () => undefined;
    answer = (response) => {
      // The first call is still running when the second one arrives.
      if (received.length > 1) respond(response);
      else finish = () => respond(response);
    };
    const { key } = await issueKey(gateway, { ceilings: { cost: 1 } });
    const body = field('model', 'standard') + parts(filePart('x'.repeat(mebibyte), 'image[]')) + field('prompt', 'a fox') + end;
    const edit = () => post('/v1/images/edits', body, { authorization: `Bearer ${key}` });
    const first = edit();
    await eventually(async () => expect(received).toHaveLength(1));
    await expectRouteError(await edit(), { name: 'images' }, { status: 429, code: 'tenant_capped', message: /budget exceeded \(cost\)/ });
    finish();
    expect((await first).status).toBe(200);
  });

  it('returns 400 for a provider with a different image format', async () => {
    const edit = (model: string) => post('/v1/images/edits', field('model', model) + field('prompt', 'x') + end);
    await expectRouteError(
      await edit('art/flux'),
      { name: 'images' },
      { status: 400, code: 'no_route', message: /does not serve images\/edits/ },
    );
    await expectRouteError(await edit('own/a b'), { name: 'images' }, { status: 400, code: 'bad_model' });
    expect(received).toEqual([]);
  });
});

describe('uploads', () => {
  const path = '/v1/audio/transcriptions';
  beforeEach(() => {
    answer = json({ text: 'Hi.', usage: { type: 'duration', seconds: 1 } });
  });

  it('forwards the upload byte for byte except for the model', async () => {
    for (const parts of [
      [field('model', 'own/whisper'), filePart('sound'), field('prompt', 'grüße')],
      [field('prompt', 'grüße'), filePart('sound'), field('model', 'own/whisper')],
    ]) {
      const answered = await post(path, parts.join('') + end, { 'x-gateway-source': 'bot' });
      expect([answered.status, answered.headers.get('x-gateway-model')]).toEqual([200, 'own/whisper']);
      expect(await rowOf(gateway)).toMatchObject({ source: 'bot' });
      expect(received.at(-1)?.body.toString()).toBe((parts.join('') + end).replace('own/whisper', 'whisper'));
    }
  });

  it('starts forwarding an upload before all of it has arrived', async () => {
    const started = new Promise<void>((resolve) => {
      onFirstBytes = resolve;
    });
    const head = field('model', 'own/whisper') + filePart('').slice(0, -2);
    const tail = `\r\n${end}`;
    const { port, hostname } = new URL(gateway.url);
    const file = Buffer.alloc(mebibyte, 'f');
    const request = httpRequest({
      ...{ port, hostname, path, method: 'POST' },
      headers: {
        authorization: `Bearer ${gateway.key}`,
        'content-type': 'multipart/form-data; boundary=x',
        'content-length': head.length + file.length + tail.length,
      },
    });
    const answered = once(request, 'response') as Promise<[IncomingMessage]>;
    request.write(head);
    request.write(file.subarray(0, 100_000));
    // The rest is sent only after the vendor has received the beginning.
    await started;
    request.write(file.subarray(100_000));
    request.end(tail);
    const [response] = await answered;
    response.resume();
    expect(response.statusCode).toBe(200);
    expect(received[0]?.body.toString()).toBe(head.replace('own/whisper', 'whisper') + file.toString() + tail);
  });

  it.each([
    ['a transcription', path, 'own/whisper', [1e-9, 1.1e-4]],
    ['an image edit', '/v1/images/edits', 'own/gpt-image-2', [0, 0]],
  ] as const)('charges for what the vendor has received if the caller aborts %s', async (_what, route, model, cost) => {
    const started = new Promise<void>((resolve) => {
      onFirstBytes = resolve;
    });
    const { port, hostname } = new URL(gateway.url);
    const request = httpRequest({
      ...{ port, hostname, path: route, method: 'POST' },
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'multipart/form-data; boundary=x', 'content-length': 80_000 },
    });
    request.on('error', () => undefined);
    request.write(field('model', model) + filePart('x'.repeat(8_000)).slice(0, -2));
    await started;
    request.destroy();
    await eventually(async () => {
      expect(await rowOf(gateway)).toMatchObject({ outcome: 'client_left', status: 499, code: 'upstream_failed', estimated: true });
    });
    const charged = Number((await rowOf(gateway)).cost);
    expect([charged >= cost[0], charged <= cost[1]]).toEqual([true, true]);
    expect(received).toEqual([]);
  });

  it('accepts an upload of 31 MiB and returns 413 for one of 33 MiB', async () => {
    const large = Buffer.concat([
      Buffer.from(field('model', 'own/whisper') + filePart('').slice(0, -2)),
      Buffer.alloc(31 * mebibyte, 7),
      Buffer.from(`\r\n${end}`),
    ]);
    expect((await post(path, large)).status).toBe(200);
    expect(received[0]?.body.length).toBe(large.length - 'own/'.length);
    const tooLarge = await post(path, Buffer.alloc(33 * mebibyte));
    expect([tooLarge.status, tooLarge.headers.get('content-type')]).toEqual([413, 'text/plain; charset=utf-8']);
    expect(received).toHaveLength(1);
  });

  it("adds a content-length header for the vendor if the caller didn't send one", async () => {
    const send = (chunks: Iterable<Uint8Array>) =>
      fetch(gateway.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'multipart/form-data; boundary=x' },
        body: ReadableStream.from(chunks),
        duplex: 'half',
      });
    const body = field('model', 'own/whisper') + filePart('sound') + end;
    expect((await send([...body].map((character) => Buffer.from(character)))).status).toBe(200);
    expect([received[0]?.headers['content-length'], received[0]?.headers['transfer-encoding']]).toEqual([
      String(body.length - 4),
      undefined,
    ]);
    const head = Buffer.from(field('model', 'own/whisper') + filePart('').slice(0, -2));
    expect((await send([head, ...Array.from({ length: 33 }, () => Buffer.alloc(mebibyte))])).status).toBe(413);
    expect(received).toHaveLength(1);
  });

  it('returns an error that says what is missing or malformed in an upload', async () => {
    await expectRouteError(await post(path, filePart('x') + end), { name: 'speech' }, { status: 400, code: 'missing_model' });
    await expectRouteError(await post(path, field('model', '') + end), { name: 'speech' }, { status: 400, code: 'missing_model' });
    await expectRouteError(
      await post(path, field('model', 'nobody/x') + end),
      { name: 'speech' },
      {
        ...{ status: 400, code: 'no_route', message: /unknown transcription provider 'nobody'/ },
      },
    );
    await expectRouteError(await post(path, field('model', 'text/x') + end), { name: 'speech' }, { status: 400, code: 'no_route' });
    for (const [body, message] of [
      [filePart('x'), 'ends before the closing boundary'],
      [field('model', 'own/whisper') + field('model', 'own/tokens') + end, 'model is given more than once'],
      [filePart('x') + filePart('y') + field('model', 'own/whisper') + end, 'file is given more than once'],
      ['{"model":"own/whisper"}', 'does not start with the boundary'],
      [field('model', 'own/whisper') + field('url', 'https://example.com/ten-hours.mp3') + end, 'url is not supported'],
      [field('File_ID', 'file-1') + field('model', 'own/whisper') + end, 'File_ID is not supported'],
    ] as const) {
      const refused = await post(path, body);
      expect([refused.status, refused.headers.get('content-type')]).toEqual([400, 'text/plain; charset=utf-8']);
      expect(await refused.text()).toContain(message);
    }
    const types = ['application/json', 'multipart/form-data', 'multipart/mixed; boundary=x', ''];
    // A parser that trims the boundary would find different parts.
    for (const type of [...types, 'multipart/form-data; boundary="x "']) {
      const refused = await post(path, field('model', 'own/whisper') + end, { 'content-type': type });
      expect([type, refused.status, refused.headers.get('content-type')]).toEqual([type, 415, 'text/plain; charset=utf-8']);
    }
    expect(received).toEqual([]);
    expect(await callsOf(gateway)).toEqual([]);
  });

  it('charges nothing if an upload turns out to be invalid while it is being forwarded', async () => {
    const body = field('model', 'own/whisper') + filePart('x'.repeat(mebibyte)) + field('model', 'own/tokens') + end;
    const refused = await post(path, body);
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('model is given more than once')]);
    expect(received).toEqual([]);
    expect(await rowOf(gateway)).toMatchObject({ outcome: 'failed', cost: 0 });
  });

  it("keeps the caller's connection usable after refusing an upload without reading it", async () => {
    const large = filePart('x'.repeat(4 * mebibyte)) + end;
    const refusals = [
      [field('model', 'dead/x') + large, 503],
      [field('model', 'nobody/x') + large, 400],
      [field('model', 'own/whisper') + field('model', 'own/whisper') + large, 400],
    ] as const;
    const { port, hostname } = new URL(gateway.url);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const statusOf = async (body: string): Promise<number | undefined> => {
      const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'multipart/form-data; boundary=x' };
      const request = httpRequest({ agent, port, hostname, path, method: 'POST', headers: { ...headers, 'content-length': body.length } });
      const answered = once(request, 'response') as Promise<[IncomingMessage]>;
      request.end(body);
      const [response] = await answered;
      response.resume();
      await once(response, 'end');
      return response.statusCode;
    };
    for (const [body, status] of refusals) {
      expect(await statusOf(body)).toBe(status);
      expect(await statusOf(field('model', 'own/whisper') + filePart('x') + end)).toBe(200);
    }
    agent.destroy();
  });

  it('returns the vendor’s error as a 502 upstream_error', async () => {
    answer = (response) =>
      response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"message":"Invalid file format."}}');
    const refused = await post(path, field('model', 'own/whisper') + filePart('x') + end);
    expect([refused.status, await jsonOf(refused)]).toMatchObject([
      502,
      { error: { code: 'upstream_error', message: expect.stringContaining('Invalid file format.') } },
    ]);
  });

  it.each(['json', 'events'])('blocks a transcript that matches a content rule (%s)', async (form) => {
    await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, {
      rules: [{ class: 'email', place: 'output', action: 'block' }],
    });
    const done = { type: 'transcript.text.done', text: 'Write to anna@example.com', usage: { type: 'duration', seconds: 10 } };
    answer = form === 'json' ? json(done) : text('text/event-stream', `data: ${JSON.stringify(done)}\n\n`);
    const blocked = await eventually(async () => {
      const response = await post(path, field('model', 'own/whisper') + filePart('x') + end);
      expect(response.status).toBe(403);
      return response;
    });
    await expectRouteError(blocked, { name: 'speech' }, { status: 403, code: 'guardrail_blocked', message: /email in output/ });
    expect(await rowOf(gateway)).toMatchObject({ outcome: 'refused', code: 'guardrail_blocked', status: 403, cost: 0.001 });
    answer = json({ text: 'Hello.' });
    expect((await post(path, field('model', 'own/whisper') + filePart('x') + end)).status).toBe(200);
  });

  it('applies content rules to the prompt of an upload', async () => {
    await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, {
      rules: [{ class: 'email', place: 'input', action: 'block' }],
    });
    const body = field('model', 'own/whisper') + filePart('x') + field('prompt', 'write to anna@example.com') + end;
    const blocked = await eventually(async () => {
      const response = await post(path, body);
      expect(response.status).toBe(403);
      return response;
    });
    await expectRouteError(blocked, { name: 'speech' }, { status: 403, code: 'guardrail_blocked' });
    const before = received.length;
    for (const part of [
      field('user', 'anna@example.com'),
      field('anna@example.com', 'x'),
      field('notes"; filename="notes.txt', 'anna@example.com'),
      field('notes"; filename="anna@example.com', 'x'),
    ])
      expect((await post(path, field('model', 'own/whisper') + part + filePart('x') + end)).status).toBe(403);
    const encoded = field('x"; filename*0="anna@exa"; filename*1="mple.com', 'x');
    expect((await post(path, field('model', 'own/whisper') + encoded + filePart('x') + end)).status).toBe(400);
    expect(received.length).toBe(before);
    const { key } = await issueKey(gateway, { ceilings: { calls: 1 } });
    const call = () => post(path, field('model', 'standard') + filePart('x') + end, { authorization: `Bearer ${key}` });
    expect([(await call()).status, (await call()).status]).toEqual([200, 429]);
  });
});
