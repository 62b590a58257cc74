/**
 * Asks a vendor to speak, in one of two shapes (vendor facts 1.7, 6): OpenAI's, and that of vendors whose voice stands in the address. The
 * audio comes as a stream that is read only as fast as it is taken. What is asked throws VendorError.
 */
import type { Readable } from 'node:stream';
import { gatewayError, VendorError } from '../core/errors.ts';
import type { MediaFields } from '../dialects/media/image-speech.ts';
import { formatFields } from '../dialects/media/image-speech.ts';
import type { HttpResponse, VendorHttpClient } from './http-client.ts';
import { destroyBody, toVendorError } from './http-client.ts';
import type { MediaProvider } from './media.ts';
import { getHeader, sendMediaRequest } from './media.ts';

export interface SpeechRequest {
  readonly provider: MediaProvider;
  /** The vendor's own id, or its voice. */
  readonly model: string;
  readonly fields: MediaFields;
  readonly now: () => number;
}

export interface SpeechResponse {
  readonly status: number;
  readonly contentType: string;
  /** Audio in order. Throws VendorError `broken` and `aborted`; stopping early (`return`) ends the vendor's request. */
  readonly chunks: AsyncGenerator<Buffer, void>;
}

/** Resolves when the first audio is there: until then a vendor's failure can still be told with a status. */
export type SendSpeech = (httpClient: VendorHttpClient, signal: AbortSignal | undefined) => Promise<SpeechResponse>;

/** Makes ready what can be made ready before the vendor is asked. Throws GatewayError `bad_shape` and `no_route`. */
export function prepareSpeech(request: SpeechRequest): SendSpeech {
  const { provider, now } = request;
  const { url, body } = writeRequest(request);
  return async (httpClient, signal) => {
    const httpRequest = { url, method: 'POST', accept: '*/*', body, now, ...(signal ? { signal } : {}) } as const;
    const response = await sendMediaRequest(httpClient, provider, httpRequest);
    const { status } = response;
    const contentType = audioType(response, provider);
    if (contentType === null) {
      destroyBody(response.body);
      throw new VendorError('unreadable', 'the answer is no audio', { status });
    }
    const chunks = relay(response.body);
    const first = await chunks.next();
    if (first.done) throw new VendorError('unreadable', 'the answer is empty', { status });
    return { status, contentType, chunks: resume(first.value, chunks) };
  };
}

function writeRequest({ provider, model, fields }: SpeechRequest): { url: URL; body: Buffer } {
  const { baseUrl, speechShape, speech } = provider;
  switch (speechShape) {
    case 'openai': {
      const { input, voice = '"alloy"', response_format = '"mp3"' } = fields;
      return {
        url: new URL(`${baseUrl}/audio/speech`),
        body: formatFields({ model: JSON.stringify(model), input, voice, response_format }),
      };
    }
    case 'voice': {
      const fixed = Object.entries(speech.body).map(([name, value]) => [name, JSON.stringify(value)]);
      return {
        url: voiceUrl(baseUrl, speech, model),
        body: formatFields({ ...Object.fromEntries(fixed), [speech.textField]: fields.input }),
      };
    }
    default:
      throw gatewayError('bad_shape');
  }
}

/** The voice as a segment of the path, or in the query: where the row marks its place with `{voice}`, else as `voice` or `model` would stand. */
function voiceUrl(baseUrl: string, { voiceIn, path }: MediaProvider['speech'], voice: string): URL {
  // An address would take such a segment for a step to another path.
  if (voice === '.' || voice === '..') throw gatewayError('no_route');
  const encoded = encodeURIComponent(voice);
  if (path.includes('{voice}')) return new URL(baseUrl + path.replaceAll('{voice}', encoded));
  if (voiceIn === 'path') return new URL(`${baseUrl}${path.replace(/\/+$/, '')}/${encoded}`);
  return new URL(`${baseUrl}${path}${path.includes('?') ? '&' : '?'}model=${encoded}`);
}

/** As the row says, else the vendor's own audio type, else `audio/mpeg` (specification 4.3, shapes 21); null: text, which is no audio. */
function audioType(response: HttpResponse, { speechMediaType }: MediaProvider): string | null {
  const type = getHeader(response, 'content-type') ?? '';
  if (/^(?:text\/|application\/(?:[\w.+-]*\+)?json\b)/i.test(type)) return null;
  if (speechMediaType !== null) return speechMediaType;
  return /^audio\//i.test(type) ? type : 'audio/mpeg';
}

async function* relay(body: Readable): AsyncGenerator<Buffer, void> {
  try {
    for await (const chunk of body) {
      const bytes: Buffer = chunk;
      if (bytes.length > 0) yield bytes;
    }
  } catch (cause) {
    throw toVendorError(cause, 'body');
  } finally {
    destroyBody(body);
  }
}

async function* resume(first: Buffer, rest: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  try {
    yield first;
    yield* rest;
  } finally {
    await rest.return();
  }
}
