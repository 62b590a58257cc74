/**
 * The client for Gemini's video API (docs/vendors.md). Starting a video returns an operation, and polling it returns
 * its state. When it's done, we download the file from the URL that the vendor returns. The key goes into a header, and
 * only to the provider's origin. If anything fails we throw a VendorError, whose message contains the vendor's status
 * and message.
 */
import { VendorError } from '../core/errors.ts';
import { asArray, asCount, asObject, asString, isObject, type JsonObject } from '../core/json/narrow.ts';
import type { VendorHttpClient } from './http-client.ts';
import { getHeader, readJsonObject } from './http-response.ts';
import { fetchVendorFile, type MediaProvider, type OnRequestId, sendMediaRequest } from './media.ts';
import { relayBody } from './response-body.ts';
import { vendorErrorText } from './strip-secrets.ts';
import { isAddress } from './vendor-hosts.ts';
import { isOperationName } from './video-address.ts';

export interface VideoVendorDeps {
  readonly httpClient: VendorHttpClient;
  /** The clock for `Retry-After` headers that contain a date. */
  readonly now: () => number;
}

/**
 * The state of an operation. `reason` is the vendor's error code. `message` comes from the vendor, so it can quote the
 * prompt.
 */
export type VideoState =
  | { readonly kind: 'running' }
  | { readonly kind: 'done'; readonly uris: readonly string[] }
  | { readonly kind: 'failed'; readonly reason: string; readonly message: string };

export interface VideoFile {
  readonly contentType: string;
  /** Null if the vendor doesn't say how long the file is. */
  readonly lengthBytes: number | null;
  /**
   * Yields the file with backpressure. Throws VendorError `broken` or `aborted`. If the consumer stops early, the
   * vendor's request is aborted.
   */
  readonly chunks: AsyncGenerator<Buffer, void>;
}

export type VideoVendor = ReturnType<typeof createVideoVendor>;

const maxResponseBytes = 1024 * 1024;
const maxFailureMessageLength = 500;
/** If the vendor takes longer than this to answer a poll, we give up and poll again later. */
const pollTimeoutMs = 30_000;

export function createVideoVendor({ httpClient, now }: VideoVendorDeps) {
  return {
    /** Starts a video and returns the name of its operation. `body` is in the vendor's format. */
    async start(provider: MediaProvider, model: string, body: Buffer, onRequestId?: OnRequestId): Promise<string> {
      const url = new URL(`${provider.baseUrl}/models/${model}:predictLongRunning`);
      const request = { url, method: 'POST', accept: 'application/json', body, now, onRequestId } as const;
      const response = await sendMediaRequest(httpClient, provider, request);
      const name = asString((await readJsonObject(response, maxResponseBytes)).name);
      // Without a name that can be polled, the caller would never get the video, so fail now.
      if (name === null || !isOperationName(name))
        throw new VendorError('unreadable', 'the response does not contain a valid operation name', { status: response.status });
      return name;
    },

    async poll(provider: MediaProvider, operation: string, signal?: AbortSignal): Promise<VideoState> {
      const connection = { ...provider, firstByteTimeoutMs: Math.min(pollTimeoutMs, provider.firstByteTimeoutMs) };
      const url = new URL(`${provider.baseUrl}/${operation}`);
      const request = { url, method: 'GET' as const, accept: 'application/json', body: null, now, ...(signal && { signal }) };
      const response = await sendMediaRequest(httpClient, connection, request);
      return toVideoState(await readJsonObject(response, maxResponseBytes), response.status, provider);
    },

    /**
     * Downloads a file. Follows redirects as long as they stay on the vendor's hosts. Throws VendorError `unreadable`
     * if one doesn't, or if there are too many.
     */
    async open(provider: MediaProvider, address: URL, signal: AbortSignal): Promise<VideoFile> {
      const response = await fetchVendorFile(httpClient, { provider, address: address.href, accept: '*/*', signal, now });
      const length = getHeader(response, 'content-length');
      return {
        contentType: getHeader(response, 'content-type') ?? 'video/mp4',
        lengthBytes: length !== null && /^\d{1,15}$/.test(length) ? Number(length) : null,
        chunks: relayBody(response.body),
      };
    },
  };
}

function toVideoState(json: JsonObject, status: number, provider: MediaProvider): VideoState {
  if (json.done !== true) return { kind: 'running' };
  const failedAs = (reason: string, message: string): VideoState => ({
    kind: 'failed',
    reason: /^[A-Z0-9_]{1,64}$/.test(reason) ? reason : 'FAILED',
    message: vendorErrorText(message, provider, maxFailureMessageLength),
  });
  if (isObject(json.error)) {
    const { status: reason, code, message } = json.error;
    return failedAs(asString(reason) ?? `CODE_${String(code)}`, asString(message) ?? '');
  }
  const { generatedSamples, raiMediaFilteredCount, raiMediaFilteredReasons } = asObject(asObject(json.response).generateVideoResponse);
  const samples = asArray(generatedSamples);
  const reasons = asArray(raiMediaFilteredReasons);
  // Google doesn't bill a response without samples, so it counts as failed. Either all samples were filtered, or we
  // don't know the reason.
  if (samples.length === 0)
    return failedAs(reasons.length > 0 || asCount(raiMediaFilteredCount) ? 'FILTERED' : 'NO_VIDEO', reasons.map(String).join(' '));
  const uris = samples.map((sample) => asString(asObject(asObject(sample).video).uri) ?? '').filter(isAddress);
  if (uris.length < samples.length) throw new VendorError('unreadable', 'the response does not contain the URL of the video', { status });
  return { kind: 'done', uris };
}
