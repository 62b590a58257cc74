/**
 * One attempt at a vendor of the text routes: sends the body, waits until it is certain that an answer comes, and hands it over.
 *
 * Until the first piece of a stream has been seen everything that goes wrong is thrown as a VendorError, so that another model can be
 * tried. After that the stream ends with how it ended; it does not throw.
 */
import { VendorError } from '../core/errors.ts';
import type { ResponseSummary, RouteCodec } from '../dialects/contract/route-codec.ts';
import { parseVendorMessage } from '../dialects/contract/vendor-message.ts';
import type { HttpResponse, VendorHttpClient } from './http-client.ts';
import { readBody } from './http-client.ts';
import { parseRetryAfter } from './retry-after.ts';
import type { StreamChunk, StreamEnd } from './stream.ts';
import { relayEvents } from './stream.ts';
import { stripSecrets } from './strip-secrets.ts';
import type { Provider } from './vendor.ts';

const maxResponseBytes = 64 * 1024 * 1024;
const maxErrorBytes = 64 * 1024;
const maxVendorMessageLength = 500;

export interface TextRequest {
  readonly provider: Provider;
  readonly codec: RouteCodec;
  readonly body: Buffer;
  readonly stream: boolean;
  readonly forwardedHeaders: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** For a vendor's `Retry-After` that is a date: asked when the answer is there, which may be long after the request. */
  readonly now: () => number;
}

export interface JsonResponse {
  readonly kind: 'plain';
  readonly status: number;
  readonly contentType: string;
  readonly bytes: Buffer;
  readonly reading: ResponseSummary;
}

export interface StreamResponse {
  readonly kind: 'stream';
  readonly status: number;
  /** Pieces in order; returns how the stream ended. Stopping early (`return`) ends the vendor's request. Throws VendorError `aborted`. */
  pieces(): AsyncGenerator<StreamChunk, StreamEnd>;
  reading(): ResponseSummary;
}

export type VendorResponse = JsonResponse | StreamResponse;

/** Throws VendorError. */
export async function sendToVendor(httpClient: VendorHttpClient, request: TextRequest): Promise<VendorResponse> {
  const { provider, codec, body, stream, signal } = request;
  const response = await httpClient.send({
    url: new URL(provider.baseUrl + codec.path),
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: stream ? 'text/event-stream' : 'application/json',
      'accept-encoding': 'identity',
      ...(codec.route === 'messages' ? { 'anthropic-version': '2023-06-01' } : {}),
      ...request.forwardedHeaders,
      ...provider.headers,
    },
    body,
    connectTimeoutMs: provider.connectTimeoutMs,
    firstByteTimeoutMs: provider.firstByteTimeoutMs,
    idleTimeoutMs: provider.idleTimeoutMs,
    ...(signal ? { signal } : {}),
  });
  if (response.status < 200 || response.status > 299) throw await readRefusal(response, request);
  return stream ? openStream(response, request) : readJson(response, request);
}

async function readJson(response: HttpResponse, { provider, codec }: TextRequest): Promise<JsonResponse> {
  const bytes = await readBody(response.body, maxResponseBytes);
  const summary = codec.parseResponse(bytes);
  if (summary === null) {
    // An error that some vendors tell with status 200.
    const errorText = bytes.length > maxErrorBytes ? null : vendorErrorText(parseVendorMessage(bytes), provider);
    const message = `the answer is no answer of ${codec.route}${errorText === null ? '' : `: ${errorText}`}`;
    throw new VendorError('unreadable', message, { status: response.status });
  }
  return {
    kind: 'plain',
    status: response.status,
    contentType: headerOf(response, 'content-type') ?? 'application/json',
    bytes,
    reading: summary,
  };
}

async function readRefusal(response: HttpResponse, { provider, now }: TextRequest): Promise<VendorError> {
  const { status } = response;
  // An error body that cannot be read does not change what the status says.
  const bytes = await readBody(response.body, maxErrorBytes).catch(() => Buffer.alloc(0));
  const vendorMessage = vendorErrorText(parseVendorMessage(bytes) ?? plainTextBody(response, bytes), provider);
  const retryAfterMs = status === 429 ? parseRetryAfter(response.headers, bytes, now()) : undefined;
  const message = `the vendor answered ${status}${vendorMessage === null ? '' : `: ${vendorMessage}`}`;
  return new VendorError('status', message, { status, vendorMessage, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
}

function vendorErrorText(text: string | null, { secrets }: Provider): string | null {
  return text === null ? null : stripSecrets(text, secrets).slice(0, maxVendorMessageLength);
}

/** What proxies in front of vendors say is often no JSON. */
function plainTextBody(response: HttpResponse, bytes: Buffer): string | null {
  return /^text\/plain\b/i.test(headerOf(response, 'content-type') ?? '') ? bytes.toString('utf8').trim() || null : null;
}

async function openStream(response: HttpResponse, { provider, codec }: TextRequest): Promise<StreamResponse> {
  const type = headerOf(response, 'content-type') ?? 'text/event-stream';
  if (!/^text\/event-stream\b/i.test(type)) {
    response.release();
    throw new VendorError('unreadable', 'the answer is no event stream', { status: response.status });
  }
  const reader = codec.createStreamReader();
  const relay = relayEvents(response.body, reader, provider.secrets);
  // Keep-alives are no piece: a vendor that sends nothing else is as silent as one that sends nothing.
  const firstChunkTimer = setTimeout(
    () => response.body.destroy(new VendorError('timeout', 'no piece of the answer in time')),
    provider.firstByteTimeoutMs,
  );
  const first = await relay.next().finally(() => clearTimeout(firstChunkTimer));
  if (first.done) {
    const reason = first.value.kind === 'broken' ? first.value.message : 'it was empty';
    throw new VendorError('broken', `the stream failed before its first piece: ${reason}`, { status: response.status });
  }
  const firstChunk = first.value;
  async function* pieces(): AsyncGenerator<StreamChunk, StreamEnd> {
    try {
      yield firstChunk;
      return yield* relay;
    } finally {
      // Where the reader stopped early this ends the request; behind a whole answer it does nothing.
      await relay.return({ kind: 'whole' });
      response.release();
    }
  }
  return { kind: 'stream', status: response.status, pieces, reading: () => reader.summary() };
}

function headerOf(response: HttpResponse, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : (value?.[0] ?? null);
}
