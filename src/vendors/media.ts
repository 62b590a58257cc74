/**
 * Shared by the media routes. It defines their providers, sends requests whose errors contain the vendor's message, and
 * downloads files from a vendor's hosts.
 */
import type { MediaRoute } from '../core/call.ts';
import { VendorError } from '../core/errors.ts';
import type { SupportedParam } from '../core/supported-params.ts';
import { parseVendorError } from '../dialects/contract/vendor-error.ts';
import type { MediaFields } from '../dialects/media/image-speech.ts';
import type { UploadBody } from '../dialects/media/uploads.ts';
import type { HttpResponse, VendorHttpClient } from './http-client.ts';
import { getHeader, isSuccess, toStatusError } from './http-response.ts';
import { buildHeaders, type FindIdentity, type ProviderSource } from './registry.ts';
import { type ResponseBody, relayBody } from './response-body.ts';
import { sendAuthorized } from './send-authorized.ts';
import { collectSecrets, secretsOf, vendorErrorText } from './strip-secrets.ts';
import type { ProviderConnection } from './vendor.ts';
import type { VendorHosts } from './vendor-hosts.ts';
import { buildVendorHosts, parseVendorAddress, resolveRedirect } from './vendor-hosts.ts';

/**
 * The formats of a provider's media routes. They're plain strings, because we report unknown ones to the caller as
 * `bad_shape`.
 */
interface MediaFormats {
  /** The dialect of the provider's video API. We only support `gemini`. */
  readonly dialect: string;
  readonly imageShape: string;
  readonly imageResponseFormat: boolean;
  readonly speechShape: string;
  readonly speechMediaType: string | null;
  readonly speech: VoiceShape;
}

/** A provider of the media routes. */
export interface MediaProvider extends ProviderConnection, MediaFormats {
  readonly hosts: VendorHosts;
}

/** The request format of a vendor that has the speech shape `voice`. */
export interface VoiceShape {
  readonly voiceIn: 'path' | 'query';
  readonly path: string;
  readonly textField: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The part of a configured provider row that the media routes need. */
export interface MediaProviderSource extends ProviderSource, MediaFormats {
  readonly serves: readonly string[];
  readonly assetHosts: readonly string[];
}

const mediaRoutes: readonly string[] = ['images', 'speech', 'transcriptions', 'video'] satisfies readonly MediaRoute[];

/** Returns the providers that serve a media route, by name. We rebuild all of them at every reload. */
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

/** A request for images or speech. */
export interface MediaRequest {
  readonly provider: MediaProvider;
  /** The vendor's model id or voice. */
  readonly model: string;
  readonly fields: MediaFields;
  /** The optional fields that the model accepts, or null if we don't know. */
  readonly takes: readonly SupportedParam[] | null;
  /** Returns the current time, because `Retry-After` may be a date. */
  readonly now: () => number;
}

export interface MediaHttpRequest {
  readonly url: URL;
  readonly method: 'POST' | 'GET';
  readonly accept: string;
  /** Either JSON or an upload. Null for GET requests. */
  readonly body: Buffer | UploadBody | null;
  /** Without a signal, only the timeouts end the request. */
  readonly signal?: AbortSignal;
  /** Returns the current time, because `Retry-After` may be a date. */
  readonly now: () => number;
}

/**
 * Sends a request to the provider's origin. Throws VendorError. For an error response, its message contains the status
 * and the body.
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
  if (!isSuccess(response)) throw await readStatusError(response, provider, now);
  return response;
}

function bodyHeaders(body: MediaHttpRequest['body']): Record<string, string> {
  if (body === null) return {};
  if (Buffer.isBuffer(body)) return { 'content-type': 'application/json' };
  return { 'content-type': body.contentType, 'content-length': String(body.lengthBytes) };
}

const maxErrorBytes = 64 * 1024;

async function readStatusError(response: HttpResponse, provider: MediaProvider, now: () => number): Promise<VendorError> {
  const bytes = await readErrorBody(response.body);
  const errorText = vendorErrorText(bytes.toString('utf8'), provider);
  return toStatusError({ response, bytes, body: parseVendorError(bytes), errorText, secrets: secretsOf(provider), now: now() });
}

/** Returns the beginning of an error body. If the body breaks off, the status still means the same. */
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
    // If the body broke off, we use what we received.
  }
  return Buffer.concat(chunks).subarray(0, maxErrorBytes);
}

/** Thrown as the cause of VendorError `unreadable` if a URL isn't on one of the provider's hosts. */
export class HostNotAllowedError extends Error {
  constructor() {
    super('the address is not on a host of the vendor');
    this.name = 'HostNotAllowedError';
  }
}

export interface FileRequest {
  readonly provider: MediaProvider;
  /** The URL as the vendor or the caller sent it. */
  readonly address: string;
  readonly accept: string;
  readonly signal?: AbortSignal;
  readonly now: () => number;
}

const maxRedirects = 5;

/**
 * Downloads a file from the provider's hosts. We only follow redirects within these hosts, and only send the key to the
 * provider's origin. Throws VendorError. If a URL isn't allowed, we don't request it, and the error's cause is a
 * HostNotAllowedError.
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
