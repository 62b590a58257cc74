/**
 * The vendor of videos in the Gemini form (vendor facts 7): a start gives an operation, polls say what became of it, a file is fetched from
 * where the vendor says. The key travels in a header, to the vendor's own origin and nowhere else.
 *
 * Everything that goes wrong is thrown as a VendorError, whose message holds the vendor's status and words.
 */
import type { Readable } from 'node:stream';
import { VendorError } from '../core/errors.ts';
import type { JsonObject } from '../core/json/narrow.ts';
import { asArray, asCount, asObject, asString, isObject, parseJson } from '../core/json/narrow.ts';
import type { HttpResponse, VendorHttpClient } from './http-client.ts';
import { destroyBody, readBody, toVendorError } from './http-client.ts';
import { fetchVendorFile, getHeader, type MediaProvider, sendMediaRequest, vendorErrorText } from './media.ts';
import { isAddress } from './vendor-hosts.ts';
import { isOperationName } from './video-address.ts';

export interface VideoVendorDeps {
  readonly httpClient: VendorHttpClient;
  /** For a `Retry-After` that is a date. */
  readonly now: () => number;
}

/** What became of an operation. `reason` is the vendor's class of the failure, `message` its sentence, which may quote the prompt. */
export type VideoState =
  | { readonly kind: 'running' }
  | { readonly kind: 'done'; readonly uris: readonly string[] }
  | { readonly kind: 'failed'; readonly reason: string; readonly message: string };

/** A file on its way. */
export interface VideoFile {
  readonly contentType: string;
  /** As the vendor declared it; null when it did not. */
  readonly lengthBytes: number | null;
  /** Read only as fast as it is taken. Throws VendorError `broken` and `aborted`; stopping early (`return`) ends the vendor's request. */
  readonly chunks: AsyncGenerator<Buffer, void>;
}

export interface VideoVendor {
  /** The name of the operation that was started with `body`, the vendor's own form of the wish. */
  start(provider: MediaProvider, model: string, body: Buffer): Promise<string>;
  poll(provider: MediaProvider, operation: string, signal?: AbortSignal): Promise<VideoState>;
  /** Follows redirects within the vendor's hosts; VendorError `unreadable` where they leave them or do not end. */
  open(provider: MediaProvider, address: URL, signal: AbortSignal): Promise<VideoFile>;
}

const maxResponseBytes = 1024 * 1024;
const maxFailureMessageLength = 500;
/** A poll tells what the vendor knows; one that takes longer is asked again later. */
const pollTimeoutMs = 30_000;

export function createVideoVendor({ httpClient, now }: VideoVendorDeps): VideoVendor {
  return {
    async start(provider, model, body) {
      const url = new URL(`${provider.baseUrl}/models/${model}:predictLongRunning`);
      const response = await sendMediaRequest(httpClient, provider, { url, method: 'POST', accept: 'application/json', body, now });
      const name = asString((await readObject(response)).name);
      // One that nobody could be asked about is none: the video would be lost to its caller.
      if (name === null || !isOperationName(name))
        throw new VendorError('unreadable', 'the answer names no operation', { status: response.status });
      return name;
    },

    async poll(provider, operation, signal) {
      const connection = { ...provider, firstByteTimeoutMs: Math.min(pollTimeoutMs, provider.firstByteTimeoutMs) };
      const url = new URL(`${provider.baseUrl}/${operation}`);
      const request = { url, method: 'GET' as const, accept: 'application/json', body: null, now, ...(signal && { signal }) };
      const response = await sendMediaRequest(httpClient, connection, request);
      return toVideoState(await readObject(response), response.status, provider);
    },

    async open(provider, address, signal) {
      const response = await fetchVendorFile(httpClient, { provider, address: address.href, accept: '*/*', signal, now });
      const length = getHeader(response, 'content-length');
      return {
        contentType: getHeader(response, 'content-type') ?? 'video/mp4',
        lengthBytes: length !== null && /^\d{1,15}$/.test(length) ? Number(length) : null,
        chunks: relay(response.body),
      };
    },
  };
}

async function* relay(body: Readable): AsyncGenerator<Buffer, void> {
  try {
    yield* body;
  } catch (cause) {
    throw toVendorError(cause, 'body');
  } finally {
    destroyBody(body);
  }
}

async function readObject({ body, status }: HttpResponse): Promise<JsonObject> {
  const json = parseJson((await readBody(body, maxResponseBytes)).toString('utf8'));
  if (!isObject(json)) throw new VendorError('unreadable', 'the answer is no JSON object', { status });
  return json;
}

function toVideoState(json: JsonObject, status: number, provider: MediaProvider): VideoState {
  if (json.done !== true) return { kind: 'running' };
  const failedAs = (reason: string, message: string): VideoState => ({
    kind: 'failed',
    reason: /^[A-Z0-9_]{1,64}$/.test(reason) ? reason : 'FAILED',
    message: vendorErrorText(message, provider).slice(0, maxFailureMessageLength),
  });
  if (isObject(json.error)) {
    const { status: reason, code, message } = json.error;
    return failedAs(asString(reason) ?? `CODE_${String(code)}`, asString(message) ?? '');
  }
  const { generatedSamples, raiMediaFilteredCount, raiMediaFilteredReasons } = asObject(asObject(json.response).generateVideoResponse);
  const samples = asArray(generatedSamples);
  const reasons = asArray(raiMediaFilteredReasons);
  // None is there, and none is billed: all were filtered, or the vendor does not say why.
  if (samples.length === 0)
    return failedAs(reasons.length > 0 || asCount(raiMediaFilteredCount) ? 'FILTERED' : 'NO_VIDEO', reasons.map(String).join(' '));
  const uris = samples.map((sample) => asString(asObject(asObject(sample).video).uri) ?? '').filter(isAddress);
  if (uris.length < samples.length) throw new VendorError('unreadable', 'the answer does not say where the video is', { status });
  return { kind: 'done', uris };
}
