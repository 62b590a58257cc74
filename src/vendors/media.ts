/**
 * Code that the media routes share. It builds their providers, sends requests, and downloads files from a vendor's
 * hosts.
 */
import type { MediaRoute } from '../core/call.ts';
import { VendorError } from '../core/errors.ts';
import type { MediaFormat } from '../core/request-format.ts';
import type { SupportedParam } from '../core/supported-params.ts';
import { parseVendorError } from '../dialects/contract/vendor-error.ts';
import type { MediaFields } from '../dialects/media/image-speech.ts';
import type { UploadBody } from '../dialects/media/uploads.ts';
import type { VendorHttpClient } from './http-client.ts';
import { getHeader, isSuccess, maxErrorBytes, readRequestId, toStatusError } from './http-response.ts';
import { sendAuthorized } from './identity/credential.ts';
import { buildHeaders, type FindIdentity, type ProviderSource } from './registry.ts';
import { type HttpResponse, type ResponseBody, relayBody } from './response-body.ts';
import { collectSecrets, secretsOf, vendorErrorText } from './strip-secrets.ts';
import type { ProviderConnection } from './vendor.ts';
import { buildVendorHosts, parseVendorAddress, resolveRedirect, type VendorHosts } from './vendor-hosts.ts';

export interface MediaProvider extends ProviderConnection, MediaFormat {
  /** The dialect of the provider's video API. We only support `gemini`. */
  readonly dialect: string;
  readonly hosts: VendorHosts;
}

export interface MediaProviderSource extends ProviderSource, MediaFormat {
  readonly serves: readonly string[];
  readonly assetHosts: readonly string[];
}

const mediaRoutes: readonly string[] = ['images', 'speech', 'transcriptions', 'video'] satisfies readonly MediaRoute[];

/** Builds all providers that serve a media route. We do this again after each reload of the configuration. */
export function buildMediaProviders(
  sources: Readonly<Record<string, MediaProviderSource>>,
  findIdentity: FindIdentity = () => null,
): ReadonlyMap<string, MediaProvider> {
  const serving = Object.entries(sources).filter(([, { serves }]) => serves.some((route) => mediaRoutes.includes(route)));
  return new Map(
    serving.map(([name, source]) => {
      const { assetHosts, baseUrl } = source;
      const hosts = buildVendorHosts(baseUrl, assetHosts);
      const identity = findIdentity(name);
      return [name, { ...source, hosts, identity, headers: buildHeaders(source), secrets: collectSecrets(source) }];
    }),
  );
}

export interface MediaRequest {
  readonly provider: MediaProvider;
  /** The vendor's id for the model, or the voice if the vendor's format expects it in the URL. */
  readonly model: string;
  readonly fields: MediaFields;
  /** The optional fields that the model supports. Null if we don't know them. */
  readonly takes: readonly SupportedParam[] | null;
  /** Returns the current time, which we need for `Retry-After` headers that contain a date. */
  readonly now: () => number;
}

export interface MediaHttpRequest {
  readonly url: URL;
  readonly method: 'POST' | 'GET';
  readonly accept: string;
  /** Null for GET requests. */
  readonly body: Buffer | UploadBody | null;
  /** Aborts the request. Without a signal, only the timeouts can end it early. */
  readonly signal?: AbortSignal;
  /** Returns the current time, which we need for `Retry-After` headers that contain a date. */
  readonly now: () => number;
  readonly onRequestId?: OnRequestId | undefined;
}

/** Called when the vendor has responded. The request id is null if the vendor didn't send one. */
export type OnRequestId = (requestId: string | null) => void;

/**
 * Sends a request to the provider's origin. Throws a VendorError with the status and the body of the response if the
 * request fails.
 */
export async function sendMediaRequest(
  httpClient: VendorHttpClient,
  provider: MediaProvider,
  request: MediaHttpRequest,
): Promise<HttpResponse> {
  const { url, method, accept, body, signal, now } = request;
  const response = await sendAuthorized(httpClient, provider, {
    url,
    method,
    headers: {
      ...bodyHeaders(body),
      accept,
      'accept-encoding': 'identity',
      ...provider.headers,
    },
    body: body === null || Buffer.isBuffer(body) ? body : body.chunks,
    ...connectionOf(provider),
    ...(signal ? { signal } : {}),
  });
  request.onRequestId?.(readRequestId(response));
  if (!isSuccess(response)) throw await readStatusError(response, provider, now);
  return response;
}

function bodyHeaders(body: MediaHttpRequest['body']): Record<string, string> {
  if (body === null) return {};
  if (Buffer.isBuffer(body)) return { 'content-type': 'application/json' };
  return { 'content-type': body.contentType, 'content-length': String(body.lengthBytes) };
}

async function readStatusError(response: HttpResponse, provider: MediaProvider, now: () => number): Promise<VendorError> {
  const bytes = await readErrorBody(response.body);
  const errorText = vendorErrorText(bytes.toString('utf8'), provider);
  return toStatusError({ response, bytes, body: parseVendorError(bytes), errorText, secrets: secretsOf(provider), now: now() });
}

/**
 * Reads the beginning of an error body. If the connection breaks, returns what has arrived, because the status alone is
 * already useful.
 */
async function readErrorBody(body: ResponseBody): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const bytes of relayBody(body)) {
      size += bytes.length;
      chunks.push(bytes);
      if (size > maxErrorBytes) break;
    }
  } catch {
    // The connection broke, so return what has arrived.
  }
  return Buffer.concat(chunks).subarray(0, maxErrorBytes);
}

/** Explains a VendorError `unreadable`: the vendor sent a URL, but its host doesn't belong to the provider. */
export class HostNotAllowedError extends Error {
  constructor() {
    super("the address must be on one of the vendor's hosts");
    this.name = 'HostNotAllowedError';
  }
}

export interface FileRequest {
  readonly provider: MediaProvider;
  /** The URL of the file, exactly as the vendor or the caller sent it. */
  readonly address: string;
  readonly accept: string;
  readonly signal?: AbortSignal;
  readonly now: () => number;
}

const maxRedirects = 5;

/**
 * Downloads a file from the provider's hosts. We don't follow redirects to any other host, and don't send the key
 * anywhere but to the provider's origin. Throws VendorErrors. If a URL isn't allowed we don't send any request, and the
 * error has a HostNotAllowedError as its cause.
 */
export async function fetchVendorFile(
  httpClient: VendorHttpClient,
  { provider, address, accept, signal, now }: FileRequest,
): Promise<HttpResponse> {
  let target = parseVendorAddress(address, provider.hosts);
  for (let hops = 0; hops <= maxRedirects; hops += 1) {
    if (target === null) {
      const cause = new HostNotAllowedError();
      throw new VendorError('unreadable', cause.message, { cause });
    }
    const { url, isProviderOrigin } = target;
    const response = await sendAuthorized(httpClient, isProviderOrigin ? provider : {}, {
      url,
      method: 'GET',
      headers: { accept, 'accept-encoding': 'identity', ...(isProviderOrigin ? provider.headers : {}) },
      body: null,
      ...connectionOf(provider),
      ...(signal ? { signal } : {}),
    });
    const location = isRedirect(response.status) ? getHeader(response, 'location') : null;
    if (location === null) {
      if (!isSuccess(response)) throw await readStatusError(response, provider, now);
      return response;
    }
    response.body.destroy();
    target = resolveRedirect(location, url, provider.hosts);
  }
  throw new VendorError('unreadable', `the file was redirected more than ${maxRedirects} times`);
}

function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 303 || status === 307 || status === 308;
}

function connectionOf({ connectTimeoutMs, firstByteTimeoutMs, idleTimeoutMs, egress }: MediaProvider) {
  return { connectTimeoutMs, firstByteTimeoutMs, idleTimeoutMs, egress };
}
