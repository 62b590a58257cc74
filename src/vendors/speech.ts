/**
 * Sends speech requests to vendors (docs/vendors.md). Some vendors expect the voice in the URL and have their own
 * format. For all others we use OpenAI's. The audio is streamed, with backpressure. Throws a VendorError if a request
 * fails.
 */
import { gatewayError, VendorError } from '../core/errors.ts';
import { ownValue } from '../core/own-value.ts';
import { modelNameAt } from '../core/request-format.ts';
import { trimEnd } from '../core/trim.ts';
import { formatFields, parseSimpleText, pickFields } from '../dialects/media/image-speech.ts';
import type { VendorHttpClient } from './http-client.ts';
import { getHeader } from './http-response.ts';
import { type MediaProvider, type MediaRequest, type OnRequestId, sendMediaRequest } from './media.ts';
import { requestUrl } from './request-url.ts';
import { type HttpResponse, relayBody } from './response-body.ts';

export interface SpeechResponse {
  readonly status: number;
  readonly contentType: string;
  /**
   * Yields the audio. Throws VendorError `broken` or `aborted`. If the consumer stops early, the vendor's request is
   * aborted.
   */
  readonly chunks: AsyncGenerator<Buffer, void>;
}

/** Resolves when the first audio arrives. Until then, the caller can still get an error status. */
export type SendSpeech = (
  httpClient: VendorHttpClient,
  options: { readonly signal: AbortSignal | undefined; readonly onRequestId: OnRequestId },
) => Promise<SpeechResponse>;

/** Prepares the request. Throws GatewayError `bad_shape` or `no_route`. */
export function prepareSpeech(request: MediaRequest): SendSpeech {
  const { provider, now } = request;
  const { url, body } = writeRequest(request);
  return async (httpClient, { signal, onRequestId }) => {
    const httpRequest = { url, method: 'POST', accept: '*/*', body, now, onRequestId, ...(signal ? { signal } : {}) } as const;
    const response = await sendMediaRequest(httpClient, provider, httpRequest);
    const { status } = response;
    const contentType = audioType(response, request);
    if (contentType === null) {
      response.body.destroy();
      throw new VendorError('unreadable', 'the response is not audio', { status });
    }
    const chunks = relayBody(response.body);
    const first = await chunks.next();
    if (first.done) throw new VendorError('unreadable', 'the response is empty', { status });
    return { status, contentType, chunks: resume(first.value, chunks) };
  };
}

function writeRequest({ provider, model, fields, takes }: MediaRequest): { url: URL; body: Buffer } {
  const { baseUrl, speechShape, speech } = provider;
  switch (speechShape) {
    case 'openai': {
      const { input, voice = '"alloy"', response_format = '"mp3"' } = fields;
      const sentModel = modelNameAt(provider.requests, model);
      return {
        url: requestUrl(provider, { path: '/audio/speech', model: sentModel }),
        body: formatFields({ model: JSON.stringify(sentModel), input, voice, response_format, ...pickFields(fields, takes) }),
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

/**
 * Replaces `{voice}` in the configured path. If the path has no such placeholder, the voice becomes the last segment of
 * the path, or the query parameter `model`.
 */
function voiceUrl(baseUrl: string, { voiceIn, path }: MediaProvider['speech'], voice: string): URL {
  // URL parsers remove the segments `.` and `..`, so the request would go somewhere else.
  if (voice === '.' || voice === '..') throw gatewayError('no_route', { refusal: { reason: 'model_unknown' } });
  const encoded = encodeURIComponent(voice);
  if (path.includes('{voice}')) return new URL(baseUrl + path.replaceAll('{voice}', encoded));
  if (voiceIn === 'path') return new URL(`${baseUrl}${trimEnd(path, '/')}/${encoded}`);
  return new URL(`${baseUrl}${path}${path.includes('?') ? '&' : '?'}model=${encoded}`);
}

/** The media types of the audio formats that callers can request. See docs/decisions/2026-11-22-media-fields.md. */
const formatTypes: Readonly<Record<string, string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
};

/**
 * Returns the media type of the audio, or null if the response is text. A configured type takes precedence over the
 * type of the requested format (mp3 by default). If we don't know that format, we return the type of the response if
 * it's an audio type, and `audio/mpeg` otherwise.
 */
function audioType(response: HttpResponse, { provider: { speechMediaType, speechShape }, fields }: MediaRequest): string | null {
  const type = getHeader(response, 'content-type') ?? '';
  if (/^(?:text\/|application\/(?:[\w.+-]*\+)?json\b)/i.test(type)) return null;
  if (speechMediaType !== null) return speechMediaType;
  const format = (speechShape === 'openai' && parseSimpleText(fields.response_format)) || 'mp3';
  return ownValue(formatTypes, format.toLowerCase()) ?? (/^audio\//i.test(type) ? type : 'audio/mpeg');
}

async function* resume(first: Buffer, rest: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  try {
    yield first;
    yield* rest;
  } finally {
    await rest.return();
  }
}
