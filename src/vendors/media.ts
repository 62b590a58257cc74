/**
 * What the media routes share at the door to the network: a provider as they need it, a request whose refusal tells the vendor's words, and
 * the fetching of files that a vendor names.
 */
import type { Readable } from 'node:stream';
import type { MediaRoute } from '../core/call.ts';
import { VendorError } from '../core/errors.ts';
import type { HttpResponse, VendorHttpClient } from './http-client.ts';
import { destroyBody } from './http-client.ts';
import { buildHeaders, type ProviderSource } from './registry.ts';
import { parseRetryAfter } from './retry-after.ts';
import { collectSecrets, stripSecrets } from './strip-secrets.ts';
import type { ProviderConnection } from './vendor.ts';
import type { VendorHosts } from './vendor-hosts.ts';
import { buildVendorHosts, parseVendorAddress, resolveRedirect } from './vendor-hosts.ts';

/** A provider row as the media routes need it. Shapes are plain text: one that is not known is told to the caller as `bad_shape`. */
export interface MediaProvider extends ProviderConnection {
  /** What its videos are spoken in: only `gemini` is known. */
  readonly dialect: string;
  readonly hosts: VendorHosts;
  readonly imageShape: string;
  readonly imageResponseFormat: boolean;
  readonly speechShape: string;
  readonly speechMediaType: string | null;
  readonly speech: VoiceShape;
}

/** How a vendor of the shape `voice` is asked. */
export interface VoiceShape {
  readonly voiceIn: 'path' | 'query';
  readonly path: string;
  readonly textField: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The part of a configured provider row that the media routes need. */
export interface MediaProviderSource extends ProviderSource {
  readonly serves: readonly string[];
  readonly imageShape: string;
  readonly imageResponseFormat: boolean;
  readonly speechShape: string;
  readonly speechMediaType: string | null;
  readonly speech: VoiceShape;
  readonly assetHosts: readonly string[];
}

const mediaRoutes: readonly string[] = ['images', 'speech', 'video'] satisfies readonly MediaRoute[];

/** By name; those that serve a media route. Rebuilt as a whole at reload. */
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

export interface MediaHttpRequest {
  readonly url: URL;
  readonly method: 'POST' | 'GET';
  readonly accept: string;
  /** JSON; null for GET. */
  readonly body: Buffer | null;
  /** Absent: nobody can end it but the timeouts. */
  readonly signal?: AbortSignal;
  /** For a `Retry-After` that is a date. */
  readonly now: () => number;
}

/** One request to the provider's own host. Throws VendorError; a refusal's message holds the vendor's status and body. */
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
      ...(body === null ? {} : { 'content-type': 'application/json' }),
      accept,
      'accept-encoding': 'identity',
      ...provider.headers,
    },
    body,
    ...timeoutsFor(provider),
    ...(signal ? { signal } : {}),
  });
  if (response.status < 200 || response.status > 299) throw await readRefusal(response, provider, now);
  return response;
}

const maxErrorBytes = 64 * 1024;
const maxErrorTextLength = 2_000;

async function readRefusal(response: HttpResponse, provider: MediaProvider, now: () => number): Promise<VendorError> {
  const { status } = response;
  const bytes = await readErrorBody(response.body);
  const errorText = vendorErrorText(bytes.toString('utf8'), provider);
  const retryAfterMs = status === 429 ? parseRetryAfter(response.headers, bytes, now()) : undefined;
  const message = `the vendor answered ${status}${errorText === '' ? '' : `: ${errorText}`}`;
  return new VendorError('status', message, { status, vendorMessage: errorText, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
}

/** An error body that cannot be read to its end does not change what the status says: what came of it is told. */
async function readErrorBody(body: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      const bytes: Buffer = chunk;
      size += bytes.length;
      chunks.push(bytes);
      if (size > maxErrorBytes) break;
    }
  } catch {
    // It broke off: the beginning is there.
  }
  return Buffer.concat(chunks).subarray(0, maxErrorBytes);
}

/** A vendor's words as they may be shown: bounded, without the provider's key, which some vendors repeat. */
export function vendorErrorText(text: string, { secrets }: MediaProvider): string {
  return stripSecrets(text, secrets).trim().slice(0, maxErrorTextLength);
}

/** The address is not one of the provider's hosts: the cause of a VendorError `unreadable`. */
export class HostNotAllowedError extends Error {
  constructor() {
    super('the address is not on a host of the vendor');
    this.name = 'ForeignAddress';
  }
}

export interface FileRequest {
  readonly provider: MediaProvider;
  /** As the vendor or the caller wrote it. */
  readonly address: string;
  readonly accept: string;
  readonly signal?: AbortSignal;
  readonly now: () => number;
}

const maxRedirects = 5;

/**
 * Fetches a file by the host rule. Redirects are followed within the provider's hosts only, and its key goes to its own host alone.
 * Throws VendorError; with the cause ForeignAddress, and without having asked there, where an address is not allowed.
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
      if (response.status < 200 || response.status > 299) throw await readRefusal(response, provider, now);
      return response;
    }
    destroyBody(response.body);
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

export function getHeader(response: HttpResponse, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : (value?.[0] ?? null);
}
