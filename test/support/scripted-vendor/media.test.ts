/** Tests rerank, images, speech and video. We check the vendors' formats, and that files match their media type. */
import { crc32, inflateSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import type { ScriptedVendor } from './server.ts';
import { keyHeaders, post, withVendor } from './with-vendor.ts';

describe('reranking by the scripted vendor', () => {
  test('sorts documents by the number of words shared with the query', () =>
    withVendor(async (vendor) => {
      const documents = ['tax report', 'the cat sleeps', { text: 'a cat' }];
      const response = await post(vendor, '/v1/rerank', {
        model: 'rerank',
        query: 'cat sleeps',
        documents,
        top_n: 2,
        return_documents: true,
      });
      expect(await response.json()).toMatchObject({
        results: [
          { index: 1, relevance_score: 2 / 3, document: { text: 'the cat sleeps' } },
          { index: 2, relevance_score: 1 / 3 },
        ],
        usage: { total_tokens: 15 },
      });
    }));
});

describe('uploads to the scripted vendor', () => {
  const upload = (vendor: ScriptedVendor, path: string, parts: Readonly<Record<string, string | File>>) => {
    const body = new FormData();
    for (const [name, value] of Object.entries(parts)) body.set(name, value);
    const { 'content-type': _json, ...headers } = keyHeaders;
    return fetch(`${vendor.url}${path}`, { method: 'POST', headers, body });
  };
  const file = new File([new Uint8Array(64_000)], 'talk.wav');

  test.each([
    ['json', '{"text":"The demo vendor received 2 s of talk.wav.","usage":{"type":"duration","seconds":2}}'],
    ['text', 'The demo vendor received 2 s of talk.wav.\n'],
    ['srt', '1\n00:00:00,000 --> 00:00:02,000\nThe demo vendor received 2 s of talk.wav.\n'],
    ['vtt', 'WEBVTT\n\n00:00:00.000 --> 00:00:02.000\nThe demo vendor received 2 s of talk.wav.\n'],
  ])('returns a transcript as %s', (response_format, text) =>
    withVendor(async (vendor) => {
      const response = await upload(vendor, '/v1/audio/transcriptions', { model: 'transcribe', file, response_format });
      expect([response.status, await response.text()]).toEqual([200, text]);
    }),
  );

  test('returns a streamed transcript and an edited image', () =>
    withVendor(async (vendor) => {
      const stream = await upload(vendor, '/v1/audio/transcriptions', { model: 'transcribe', file, stream: 'true' });
      expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream/);
      expect(await stream.text()).toContain('"type":"transcript.text.done","text":"The demo vendor received 2 s of talk.wav."');
      const edited = await upload(vendor, '/v1/images/edits', { model: 'image', image: file, prompt: 'a cat', n: '2' });
      expect(((await edited.json()) as { data: unknown[] }).data).toHaveLength(2);
      for (const path of ['/v1/audio/translations', '/v1/images/edits'])
        expect((await upload(vendor, path, { model: 'image', prompt: 'a cat' })).status).toBe(400);
    }));
});

describe("the scripted vendor's images", () => {
  test('returns a valid base64 PNG of the requested size', () =>
    withVendor(async (vendor) => {
      const response = await post(vendor, '/v1/images/generations', { model: 'image', prompt: 'a cat', n: 2, size: '1536x1024' });
      const { data } = (await response.json()) as { data: { b64_json: string }[] };
      expect(data).toHaveLength(2);
      for (const { b64_json } of data) expect(readPng(Buffer.from(b64_json, 'base64'))).toEqual({ width: 1536, height: 1024 });
      expect(data[0]?.b64_json).not.toBe(data[1]?.b64_json);
    }));

  test('returns a URL on request and serves the file there', () =>
    withVendor(async (vendor) => {
      const body = { model: 'image', prompt: 'a cat', response_format: 'url', size: '64x32' };
      const { data } = (await (await post(vendor, '/v1/images/generations', body)).json()) as { data: { url: string }[] };
      const file = await fetch(data[0]?.url ?? '');
      expect(file.headers.get('content-type')).toBe('image/png');
      expect(readPng(Buffer.from(await file.arrayBuffer()))).toEqual({ width: 64, height: 32 });
    }));

  test('returns 400 for an invalid size', () =>
    withVendor(async (vendor) => {
      const images = (members: object) => post(vendor, '/v1/images/generations', { model: 'b64-only', prompt: 'x', ...members });
      expect((await images({ size: 'huge' })).status).toBe(400);
      expect((await images({ response_format: 'b64_json' })).status).toBe(400);
      expect((await images({})).status).toBe(200);
    }));

  test('returns the artifacts format if the model is in the path', () =>
    withVendor(async (vendor) => {
      const draw = async (model: string) =>
        (await post(vendor, `/v1/genai/demo/${model}`, { prompt: 'a cat', width: 768, height: 1344, seed: 5, steps: 4 })).json();
      const { artifacts } = (await draw('flux.1-schnell')) as { artifacts: { base64: string }[] };
      expect(artifacts).toMatchObject([{ finishReason: 'SUCCESS', seed: 5 }]);
      expect(readPng(Buffer.from(artifacts[0]?.base64 ?? '', 'base64'))).toEqual({ width: 768, height: 1344 });
      expect(await draw('filtered')).toEqual({ artifacts: [{ base64: '', finishReason: 'CONTENT_FILTERED', seed: 0 }] });
    }));
});

describe('speech of the scripted vendor', () => {
  test.each([
    ['mp3', 'audio/mpeg', 'fffb10c4'],
    ['wav', 'audio/wav', '52494646'],
    ['pcm', 'audio/pcm', '00000000'],
  ])('returns %s with the media type %s and its file signature', (format, mediaType, start) =>
    withVendor(async (vendor) => {
      const body = { model: 'speech', input: 'one two three', voice: 'alloy', response_format: format };
      const response = await post(vendor, '/v1/audio/speech', body);
      const bytes = Buffer.from(await response.arrayBuffer());
      expect(response.headers.get('content-type')).toBe(mediaType);
      expect(
        bytes
          .subarray(0, 4)
          .toString('hex')
          .replace(/^0000.*/, '00000000'),
      ).toBe(start);
      if (format === 'mp3') expect(bytes.length).toBe(3 * 4 * 104);
      if (format === 'wav') expect(bytes.readUInt32LE(4)).toBe(bytes.length - 8);
    }),
  );

  test('accepts speech requests with the voice in the path or in the query', () =>
    withVendor(async (vendor) => {
      for (const path of ['/v1/text-to-speech/rachel?output_format=mp3_44100_128', '/v1/speak?model=aura']) {
        const response = await post(vendor, path, { text: 'hello' });
        expect(response.headers.get('content-type')).toBe('audio/mpeg');
        await response.arrayBuffer();
      }
      const failed = await post(vendor, '/v1/speak?model=echo%2Bfail-500', { text: 'hello' });
      expect(failed.status).toBe(500);
      expect(await failed.json()).toMatchObject({ detail: { status: 'http_500' } });
    }));
});

describe("the scripted vendor's videos", () => {
  test('finishes an operation after two polls and redirects once to its file', () =>
    withVendor(async (vendor) => {
      const name = await start(vendor, 'clip');
      expect(await poll(vendor, name)).not.toHaveProperty('done');
      expect(await poll(vendor, name)).not.toHaveProperty('done');
      const finished = (await poll(vendor, name)) as {
        response: { generateVideoResponse: { generatedSamples: { video: { uri: string } }[] } };
      };
      const uri = finished.response.generateVideoResponse.generatedSamples[0]?.video.uri ?? '';
      expect((await fetch(uri)).status).toBe(401);
      const redirect = await fetch(uri, { headers: keyHeaders, redirect: 'manual' });
      expect(redirect.status).toBe(302);
      const file = await fetch(redirect.headers.get('location') ?? '');
      expect(file.headers.get('content-type')).toBe('video/mp4');
      expect(Buffer.from(await file.arrayBuffer()).toString('latin1', 4, 12)).toBe('ftypisom');
    }));

  test("fails or filters a video if its model's name asks for it", () =>
    withVendor(async (vendor) => {
      expect(await poll(vendor, await start(vendor, 'video-polls-0+video-fails'))).toMatchObject({ done: true, error: { code: 3 } });
      const filtered = await poll(vendor, await start(vendor, 'video-polls-0+filtered'));
      expect(filtered).toMatchObject({ response: { generateVideoResponse: { raiMediaFilteredCount: 1 } } });
      await start(vendor, 'video-elsewhere');
      const file = await fetch(`${vendor.url}/v1beta/files/demo5-0:download?alt=media`, { headers: keyHeaders, redirect: 'manual' });
      expect(file.headers.get('location')).toMatch(/^http:\/\/elsewhere\.invalid\//);
    }));

  test('returns 404 for an unknown operation', () =>
    withVendor(async (vendor) => {
      expect(await poll(vendor, 'models/clip/operations/unknown')).toMatchObject({ error: { code: 404, status: 'NOT_FOUND' } });
      const limited = await post(vendor, '/v1beta/models/rate-limited-body-37:predictLongRunning', { instances: [{ prompt: 'x' }] });
      expect(limited.status).toBe(429);
      expect(await limited.json()).toMatchObject({ error: { status: 'RESOURCE_EXHAUSTED', details: [{ retryDelay: '37s' }] } });
    }));
});

async function start(vendor: ScriptedVendor, model: string): Promise<string> {
  const response = await post(vendor, `/v1beta/models/${model}:predictLongRunning`, { instances: [{ prompt: 'a cat' }] });
  return ((await response.json()) as { name: string }).name;
}

async function poll(vendor: ScriptedVendor, name: string): Promise<unknown> {
  return (await fetch(`${vendor.url}/v1beta/${name}`, { headers: keyHeaders })).json();
}

/** Returns the width and height. Throws if the checksums, the pixels or the order of chunks is wrong. */
function readPng(file: Buffer): { width: number; height: number } {
  const chunks = new Map<string, Buffer>();
  for (let at = 8; at < file.length; ) {
    const end = at + 8 + file.readUInt32BE(at);
    if (crc32(file.subarray(at + 4, end)) !== file.readUInt32BE(end)) throw new Error('checksum');
    chunks.set(file.toString('latin1', at + 4, at + 8), file.subarray(at + 8, end));
    at = end + 4;
  }
  const header = chunks.get('IHDR') ?? Buffer.alloc(8);
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const pixels = inflateSync(chunks.get('IDAT') ?? Buffer.alloc(0));
  if (pixels.length !== (1 + Math.ceil(width / 8)) * height || !chunks.has('IEND')) throw new Error('pixels');
  return { width, height };
}
