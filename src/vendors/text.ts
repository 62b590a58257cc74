/**
 * Makes one attempt to call a vendor of the text routes. Sends the body, and returns the response as soon as it has
 * started. If anything fails before the first chunk of a stream, we throw a VendorError, so that another model can be
 * tried. After that the stream doesn't throw anymore, but says at its end what went wrong.
 */
import { contextOverflowCode, VendorError } from '../core/errors.ts';
import { largeBytes } from '../core/low-priority-thread.ts';
import { takeInTurns } from '../core/turns.ts';
import type { ResponseSummary, RouteCodec, StreamReader } from '../dialects/contract/route-codec.ts';
import { decodeAwsEventStream, isAwsEventStream } from './aws-event-stream.ts';
import { startContentTimeout } from './content-timeout.ts';
import { holdOpening, type OpenedStream } from './hold-opening.ts';
import type { Address, VendorHttpClient } from './http-client.ts';
import { getHeader, isSuccess, readRequestId, toReport } from './http-response.ts';
import { sendAuthorized } from './identity/credential.ts';
import { adaptBody, changesBodies, firstVersion, hasVersionInBody } from './request-body.ts';
import { pathAt, requestUrl } from './request-url.ts';
import type { HttpResponse, ResponseBody } from './response-body.ts';
import { type ChunkReader, nextChunk, relayEvents, type StreamChunk, type StreamEnd, toStreamError } from './stream.ts';
import { secretsOf } from './strip-secrets.ts';
import { overflowError, readStatusError, toExcerpt, toVendorMessage, unusableJson } from './text-errors.ts';
import type { Provider } from './vendor.ts';

const maxResponseBytes = 64 * 1024 * 1024;

export interface TextRequest {
  readonly provider: Provider;
  readonly codec: RouteCodec;
  readonly model: string;
  /** The body of the request. If it's large, it's a list of buffers. */
  readonly body: Buffer | readonly Buffer[];
  readonly stream: boolean;
  readonly forwardedHeaders: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Called when the vendor has responded. The request id is null if the vendor didn't send one. */
  readonly onRequestId?: (requestId: string | null) => void;
  /**
   * True if we can still fail over to another model. In this case we only return a stream once it has content, and
   * throw everything that goes wrong before that.
   */
  readonly mayFailOver?: boolean;
  /**
   * How long we wait for the first content. In a stream, that's text, a tool call or reasoning. Otherwise it's the
   * whole response. Null or absent for no limit.
   */
  readonly firstContentTimeoutMs?: number | null;
  /**
   * Returns the current time, which we need for `Retry-After` headers that contain a date. It's a function because the
   * response can arrive long after the request was sent.
   */
  readonly now: () => number;
}

export interface JsonResponse {
  readonly kind: 'plain';
  readonly status: number;
  readonly contentType: string;
  readonly bytes: Buffer;
  readonly summary: ResponseSummary;
}

export interface StreamResponse {
  readonly kind: 'stream';
  readonly status: number;
  /** Returns a reader for the chunks. Can only be called once. Closing the reader frees the vendor's connection. */
  chunks(): ChunkReader;
  summary(): ResponseSummary;
  hasAllOutput(choices: number): boolean;
  readonly formatFailure?: StreamReader['formatFailure'];
  /** Set if the vendor has opened the response but hasn't sent any content. */
  readonly isWithoutContent?: true;
}

export type VendorResponse = JsonResponse | StreamResponse;

/** Sends a request to a vendor. Throws VendorError. */
export function sendToVendor(httpClient: VendorHttpClient, request: TextRequest): Promise<VendorResponse> {
  const { firstContentTimeoutMs = null } = request;
  return firstContentTimeoutMs === null ? send(httpClient, request) : sendInTime(httpClient, request, firstContentTimeoutMs);
}

async function sendInTime(httpClient: VendorHttpClient, request: TextRequest, timeoutMs: number): Promise<VendorResponse> {
  const timeout = startContentTimeout(timeoutMs, request.signal);
  try {
    return await send(httpClient, { ...request, signal: timeout.signal });
  } catch (error) {
    throw timeout.explain(error);
  } finally {
    timeout.clear();
  }
}

function send(httpClient: VendorHttpClient, request: TextRequest): Promise<VendorResponse> {
  const { provider, codec, model, stream, signal } = request;
  const { address, plainHeaders, streamHeaders } = targetOf(provider, codec, stream);
  const url = address ?? requestUrl(provider, { path: codec.path, model, isStream: stream });
  const { body, forwardedHeaders } = changesBodies(provider.requests) ? adaptRequest(request, address === null) : request;
  const accepted = stream ? streamHeaders : plainHeaders;
  const partsBytes = Buffer.isBuffer(body) ? null : body.reduce((sum, part) => sum + part.length, 0);
  const headers = partsBytes === null ? accepted : { ...accepted, 'content-length': String(partsBytes) };
  const sent = sendAuthorized(httpClient, provider, {
    url,
    method: 'POST',
    headers: Object.keys(forwardedHeaders).length > 0 ? { ...headers, ...forwardedHeaders, ...provider.headers } : headers,
    body: Buffer.isBuffer(body) || (partsBytes ?? 0) < largeBytes ? body : takeInTurns(body),
    connectTimeoutMs: provider.connectTimeoutMs,
    firstByteTimeoutMs: provider.firstByteTimeoutMs,
    idleTimeoutMs: provider.idleTimeoutMs,
    egress: provider.egress,
    signal,
  });
  return sent.then((response) => {
    request.onRequestId?.(readRequestId(response));
    const bytes = stream || !isSuccess(response) ? null : response.body.takeComplete(maxResponseBytes);
    return bytes === null ? readResponse(response, request) : toJsonResponse(response, bytes, request);
  });
}

async function readResponse(response: HttpResponse, request: TextRequest): Promise<VendorResponse> {
  if (!isSuccess(response)) throw await readStatusError(response, request);
  if (request.stream) return openStream(response, request);
  return toJsonResponse(response, await response.body.readAll(maxResponseBytes), request);
}

/**
 * Adapts the body to the provider's format. If the API version has moved into the body, it's no longer sent as a
 * header.
 */
function adaptRequest(
  { body, provider: { requests }, forwardedHeaders: headers }: TextRequest,
  hasModelInPath: boolean,
): Pick<TextRequest, 'body' | 'forwardedHeaders'> {
  const { 'anthropic-version': _version, ...others } = headers;
  const whole = Buffer.isBuffer(body) ? body : Buffer.concat(body);
  return {
    body: adaptBody(whole, requests, { hasModelInPath, headers }),
    forwardedHeaders: hasVersionInBody(requests) ? others : headers,
  };
}

/** The address of a route at a provider, and all headers that don't come from the caller. */
interface Target {
  /** The address of the route. Null if it depends on the model. */
  readonly address: Address | null;
  readonly plainHeaders: Readonly<Record<string, string>>;
  readonly streamHeaders: Readonly<Record<string, string>>;
}

/** Maps each provider's paths to targets. A stream can have a different path than other requests. */
const targets = new WeakMap<Provider, Map<string, Target>>();

function targetOf(provider: Provider, codec: RouteCodec, isStream: boolean): Target {
  const path = pathAt(provider, { path: codec.path, isStream }) ?? codec.path;
  const known = targets.get(provider)?.get(path);
  if (known) return known;
  const { origin, pathname, search } = requestUrl(provider, { path: codec.path, model: '', isStream });
  const headersFor = (accept: string) => ({
    'content-type': 'application/json',
    accept,
    'accept-encoding': 'identity',
    ...(codec.route === 'messages' && !hasVersionInBody(provider.requests) && { 'anthropic-version': firstVersion }),
    ...provider.headers,
  });
  const address = path.includes('{model}') ? null : { origin, pathname, search };
  const target = { address, plainHeaders: headersFor('application/json'), streamHeaders: headersFor('text/event-stream') };
  const ofProvider = targets.get(provider) ?? new Map<string, Target>();
  targets.set(provider, ofProvider.set(path, target));
  return target;
}

function toJsonResponse(response: HttpResponse, bytes: Buffer, { provider, codec }: TextRequest): JsonResponse {
  const summary = codec.parseResponse(bytes);
  if (summary === null) throw unusableJson(`the response is not a valid ${codec.route} response`, bytes, response.status, provider);
  return {
    kind: 'plain',
    status: response.status,
    contentType: getHeader(response, 'content-type') ?? 'application/json',
    bytes,
    summary,
  };
}

async function openStream(
  response: HttpResponse,
  { provider, codec, mayFailOver = false, firstContentTimeoutMs = null }: TextRequest,
): Promise<StreamResponse> {
  // Don't use `response` in the functions below, because that would keep its headers in memory until the stream ends.
  const { status } = response;
  const type = getHeader(response, 'content-type') ?? 'text/event-stream';
  const isBinary = isAwsEventStream(type);
  const body = isBinary ? decodeAwsEventStream(response.body) : response.body;
  if (!isBinary && !/^text\/event-stream\b/i.test(type)) {
    const problem = 'the response is not an event stream';
    if (/^application\/json\b/i.test(type)) throw unusableJson(problem, await body.readAll(maxResponseBytes), status, provider);
    body.release();
    throw new VendorError('unreadable', problem, { status });
  }
  const reader = codec.createStreamReader();
  const relay = relayEvents(body, reader, secretsOf(provider));
  // If there's a timeout for the first content, it also covers the first chunk, so we don't need a second timer.
  const isLimited = firstContentTimeoutMs !== null;
  const first = relay.read() ?? (await (isLimited ? nextChunk(relay) : waitForChunk(relay, body, provider)));
  const fail = (reason: string): never => {
    const problem = reader.problem();
    if (problem?.code === contextOverflowCode) throw overflowError(problem, provider);
    const report = problem === null ? undefined : toReport(problem, secretsOf(provider));
    const vendorMessage = toVendorMessage(problem?.message ?? null, provider);
    // Bedrock doesn't check the rate limit until it has started a stream. Treat this like a 429.
    if (report?.type === 'rate_limit_error')
      throw new VendorError('status', toExcerpt(vendorMessage) ?? 'the rate limit is exceeded', { status: 429, vendorMessage, report });
    throw new VendorError('broken', `the stream failed before its first chunk: ${reason}`, {
      status,
      vendorMessage,
      ...(report && { report }),
    });
  };
  if (first.kind !== 'chunk') return fail(first.kind === 'broken' ? first.message : 'it was empty');
  const isHeld = first.isOpening && (mayFailOver || isLimited);
  const { held, end }: OpenedStream = isHeld ? await holdOpening(relay, first, isLimited) : { held: [first], end: null };
  if (end?.kind === 'broken') {
    if (end.isStopping) throw toStreamError(end);
    return fail(end.message);
  }
  const chunks = (): ChunkReader => ({
    read: () => held.shift() ?? end ?? relay.read(),
    ready: relay.ready,
    close() {
      relay.close();
      body.release();
    },
  });
  const { hasAllOutput, formatFailure } = reader;
  return {
    ...{ kind: 'stream', status, chunks, summary: () => reader.summary(), hasAllOutput },
    ...(formatFailure && { formatFailure }),
    ...(end === null && held.at(-1)?.isOpening && { isWithoutContent: true }),
  };
}

/**
 * Waits for the first chunk. Keep-alives don't count as a chunk, so a vendor that sends nothing else causes a timeout.
 */
function waitForChunk(relay: ChunkReader, body: ResponseBody, { firstByteTimeoutMs }: Provider): Promise<StreamChunk | StreamEnd> {
  const timer = setTimeout(
    () => body.destroy(new VendorError('timeout', 'timed out waiting for the first chunk of the response')),
    firstByteTimeoutMs,
  );
  return nextChunk(relay).finally(() => clearTimeout(timer));
}
