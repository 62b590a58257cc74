/**
 * Relays an upload to a vendor while it's still arriving, and then the response to the caller. We don't change any
 * bytes, except that we replace images that the vendor returns as URLs. Sending throws VendorErrors, or the error of
 * the upload.
 */
import { GatewayError, gatewayError, VendorError } from '../core/errors.ts';
import { asArray, asObject } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';
import { createSseParser, type SseEvent, SseEventTooLargeError } from '../core/sse.ts';
import { asNonEmptyString } from '../dialects/json/lossless-json.ts';
import {
  addUploadUsage,
  parseEditUsage,
  parseTranscriptDelta,
  parseTranscriptionUsage,
  parseUploadEvent,
  type UploadUsage,
} from '../dialects/media/upload-usage.ts';
import type { UploadBody, UploadKind } from '../dialects/media/uploads.ts';
import type { VendorHttpClient } from './http-client.ts';
import { getHeader } from './http-response.ts';
import { inlineImages, maxImageResponseBytes, UnusableImagesError } from './images.ts';
import { type MediaProvider, type OnRequestId, sendMediaRequest } from './media.ts';
import { requestUrl } from './request-url.ts';
import { type HttpResponse, ResponseTooLargeError, relayBody } from './response-body.ts';

export interface UploadRequest {
  readonly provider: MediaProvider;
  readonly kind: UploadKind;
  readonly model: string;
  readonly body: UploadBody;
  readonly signal: AbortSignal | undefined;
  readonly now: () => number;
  readonly onRequestId: OnRequestId;
}

export interface UploadResponse {
  readonly status: number;
  readonly contentType: string;
  /**
   * Yields a single chunk if the response isn't streamed. Throws VendorError `broken` or `aborted`. If the consumer
   * stops early, the vendor's request is aborted.
   */
  readonly chunks: AsyncGenerator<Buffer, void>;
  /** Returns null until the vendor has reported its usage. */
  readonly usage: () => UploadUsage | null;
  /** Returns what has been transcribed so far. There's no text for images. */
  readonly texts: () => readonly string[];
  /** Returns false until the whole response has arrived. */
  readonly isComplete: () => boolean;
}

/** Throws `no_route` if the provider's format doesn't support uploads. */
export async function sendUpload(httpClient: VendorHttpClient, request: UploadRequest): Promise<UploadResponse> {
  const { provider, kind, model, signal, now, onRequestId } = request;
  const upload = watchUpload(request.body);
  const response = await sendMediaRequest(httpClient, provider, {
    url: requestUrl(provider, { path: kind.path, model }),
    method: 'POST',
    accept: '*/*',
    body: upload.body,
    now,
    onRequestId,
    ...(signal && { signal }),
  }).catch((cause: unknown) => {
    const error = upload.error();
    if (error === null || error instanceof GatewayError) throw error ?? cause;
    throw new VendorError('aborted', 'the upload ended early', { cause: error });
  });
  const { status } = response;
  const contentType = getHeader(response, 'content-type') ?? (kind.route === 'images' ? 'application/json' : 'text/plain; charset=utf-8');
  if (/^text\/event-stream\b/i.test(contentType)) return relayStream(response, contentType);
  const received = await response.body.readAll(maxImageResponseBytes).catch((cause: unknown) => {
    if (cause instanceof ResponseTooLargeError && kind.route === 'images')
      throw new UnusableImagesError(cause.message, { status, cause, tokens: null });
    throw cause instanceof VendorError && cause.kind === 'broken' ? new VendorError('unreadable', cause.message, { status, cause }) : cause;
  });
  if (received.length === 0) throw new VendorError('unreadable', 'the response is empty', { status });
  const bytes = kind.route === 'images' ? await inlineEdits(httpClient, received, request, status) : received;
  const usage = kind.route === 'images' ? parseEditUsage(received) : parseTranscriptionUsage(bytes);
  return { status, contentType, chunks: once(bytes), usage: () => usage, texts: () => [usage.text ?? ''], isComplete: () => true };
}

/** Throws `no_route` if the provider's image format doesn't support uploads. */
export function assertTakesUploads({ name, imageShape }: MediaProvider, { route, path }: UploadKind): void {
  if (route === 'images' && imageShape !== 'openai')
    throw gatewayError('no_route', {
      message: `the provider ${name} does not serve ${path.slice(1)}`,
      refusal: { reason: 'no_model' },
    });
}

/** The HTTP client reports an error of the upload as a connection error, so keep the original. */
function watchUpload(body: UploadBody): { readonly body: UploadBody; readonly error: () => unknown } {
  let failure: unknown = null;
  async function* chunks(): AsyncGenerator<Buffer, void> {
    try {
      yield* body.chunks;
    } catch (error) {
      failure = error;
      throw error;
    }
  }
  return { body: { ...body, chunks: chunks() }, error: () => failure };
}

/**
 * If the vendor returned URLs for the edited images, downloads the images and puts them into the response as base64.
 * Otherwise the vendor's bytes don't change.
 */
async function inlineEdits(httpClient: VendorHttpClient, bytes: Buffer, { provider, now }: UploadRequest, status: number): Promise<Buffer> {
  const body = asObject(parseJson(bytes.toString('utf8')));
  const rows = asArray(body.data);
  if (rows.length > 0 && rows.every((row) => asNonEmptyString(asObject(row).b64_json) !== null)) return bytes;
  const { images } = await inlineImages(httpClient, body, { provider, now, status });
  return Buffer.from(JSON.stringify({ ...body, data: images.map((b64_json) => ({ b64_json })) }));
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer, void> {
  yield bytes;
}

/** Relays chunks as they arrive. Also reads the events, one of which contains the usage. */
function relayStream({ status, body }: HttpResponse, contentType: string): UploadResponse {
  const parser = createSseParser(maxImageResponseBytes);
  let usage: UploadUsage | null = null;
  let isComplete = false;
  let deltas = '';
  const read = (events: readonly SseEvent[]): void => {
    for (const event of events) {
      usage = addUploadUsage(usage, parseUploadEvent(event));
      deltas += parseTranscriptDelta(event);
    }
  };
  async function* chunks(): AsyncGenerator<Buffer, void> {
    try {
      for await (const chunk of relayBody(body)) {
        read(parser.push(chunk).events);
        yield chunk;
      }
      read(parser.end().events);
      isComplete = true;
    } catch (cause) {
      throw cause instanceof SseEventTooLargeError ? new VendorError('broken', cause.message, { status, cause }) : cause;
    }
  }
  const texts = () => [deltas, usage?.text ?? ''];
  return { status, contentType, chunks: chunks(), usage: () => usage, texts, isComplete: () => isComplete };
}
