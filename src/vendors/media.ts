/** Shared by the media routes: providers, requests whose errors contain the vendor's message, and downloads of files from a vendor's hosts. */
import type { MediaRoute } from '../core/call.ts';
import { VendorError } from '../core/errors.ts';
import type { TakeableField } from '../core/takeable-fields.ts';
import { parseVendorError } from '../dialects/contract/vendor-error.ts';
import type { MediaFields } from '../dialects/media/image-speech.ts';
import type { UploadBody } from '../dialects/media/uploads.ts';
import type { HttpResponse, VendorHttpClient } from './http-client.ts';
import { getHeader, isSuccess, toStatusError } from './http-response.ts';
import { buildHeaders, type ProviderSource } from './registry.ts';
import { type ResponseBody, relayBody } from './response-body.ts';
import { collectSecrets, stripSecrets } from './strip-secrets.ts';
import type { ProviderConnection } from './vendor.ts';
import type { VendorHosts } from './vendor-hosts.ts';
import { buildVendorHosts, parseVendorAddress, resolveRedirect } from './vendor-hosts.ts';

/** Formats of a provider's media routes: plain strings, because an unknown one is reported to the caller as `bad_shape`. */
interface MediaFormats {
  /** Dialect of its video API; only `gemini` is supported. */
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

/** Request format of a vendor with the speech shape `voice`. */
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

/** Returns the providers that serve a media route, by name. Rebuilt completely at each reload. */
export function buildMediaProviders(sources: Readonly<Record<string, MediaProviderSource>>): ReadonlyMap<string, MediaProvider> {
  const serving = Object.entries(sources).filter(([, { serves }]) => serves.some((route) => mediaRoutes.includes(route)));
  return new Map(
    serving.map(([name, source]) => {
      const { assetHosts, baseUrl } = source;
      return [
        name,
        { ...source, hosts: buildVendorHosts(baseUrl, assetHosts), headers: buildHeaders(source), secrets: collectSecrets(source) },
      ];
    }),
  );
}

/** A request for images or speech. */
export interface MediaRequest {
  readonly provider: MediaProvider;
  /** The vendor's model id or voice. */
  readonly model: string;
  readonly fields: MediaFields;
  /** Optional fields that the model accepts; null when unknown. */
  readonly takes: readonly TakeableField[] | null;
  /** For a `Retry-After` that is a date. */
  readonly now: () => number;
}

export interface MediaHttpRequest {
  readonly url: URL;
  readonly method: 'POST' | 'GET';
  readonly accept: string;
  /** JSON, or an upload; null for GET. */
  readonly body: Buffer | UploadBody | null;
  /** When absent, only the timeouts end the request. */
  readonly signal?: AbortSignal;
  /** For a `Retry-After` that is a date. */
  readonly now: () => number;
}

/** Sends a request to the provider's origin. Throws VendorError; the message of an error response contains its status and body. */
export async function sendMediaRequest(
  httpClient: VendorHttpClient,
  provider: MediaProvider,
  request: MediaHttpRequest,
): Promise<HttpResponse> {
  const { url, method, accept, body, signal, now } = request;
  const response = await httpClient.send({
    url,
    method,
    headers: {
      ...bodyHeaders(body),
      accept,
      'accept-encoding': 'identity',
      ...provider.headers,
    },
    body: body === null || Buffer.isBuffer(body) ? body : body.chunks,
    ...timeoutsFor(provider),
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
const maxErrorTextLength = 2_000;

async function readStatusError(response: HttpResponse, provider: MediaProvider, now: () => number): Promise<VendorError> {
  const bytes = await readErrorBody(response.body);
  const errorText = vendorErrorText(bytes.toString('utf8'), provider);
  return toStatusError({ response, bytes, body: parseVendorError(bytes), errorText, secrets: provider.secrets, now: now() });
}

/** Returns the beginning of an error body. A body that breaks off does not change the meaning of the status. */
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
    // The body broke off: use what was received.
  }
  return Buffer.concat(chunks).subarray(0, maxErrorBytes);
}

/** Returns a vendor's message for the caller: bounded, without the provider's key, which some vendors repeat. */
export function vendorErrorText(text: string, { secrets }: MediaProvider): string {
  return stripSecrets(text, secrets).trim().slice(0, maxErrorTextLength);
}

/** A URL is not on one of the provider's hosts; the cause of a VendorError `unreadable`. */
export class HostNotAllowedError extends Error {
  constructor() {
    super('the address is not on a host of the vendor');
    this.name = 'ForeignAddress';
  }
}

export interface FileRequest {
  readonly provider: MediaProvider;
  /** URL as sent by the vendor or the caller. */
  readonly address: string;
  readonly accept: string;
  readonly signal?: AbortSignal;
  readonly now: () => number;
}

const maxRedirects = 5;

/**
 * Downloads a file from the provider's hosts. Follows redirects within these hosts only, and sends the key to the provider's origin only.
 * Throws VendorError, with the cause HostNotAllowedError when a URL is not allowed; such a URL is not requested.
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
    const response = await httpClient.send({
      url,
      method: 'GET',
      headers: { accept, 'accept-encoding': 'identity', ...(isProviderOrigin ? provider.headers : {}) },
      body: null,
      ...timeoutsFor(provider),
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

function timeoutsFor({ connectTimeoutMs, firstByteTimeoutMs, idleTimeoutMs }: MediaProvider) {
  return { connectTimeoutMs, firstByteTimeoutMs, idleTimeoutMs };
}
