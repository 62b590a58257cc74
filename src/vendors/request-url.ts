import { VendorError } from '../core/errors.ts';
import type { ProviderConnection } from './vendor.ts';

type AddressedProvider = Pick<ProviderConnection, 'baseUrl' | 'requests'>;

/** The destination of a request. `path` is the standard path of its route, for example `/chat/completions`. */
export interface RequestTarget {
  readonly path: string;
  readonly model: string;
  readonly isStream?: boolean;
}

/**
 * Returns the path of a route at this provider, which may contain `{model}`. Null if the provider doesn't have the
 * route.
 */
export function pathAt({ requests }: AddressedProvider, { path, isStream = false }: Omit<RequestTarget, 'model'>): string | null {
  const streamPath = isStream ? requests.streamPaths[path] : undefined;
  return streamPath ?? (Object.hasOwn(requests.paths, path) ? (requests.paths[path] ?? null) : path);
}

/** Throws VendorError if the model's name can't be a part of a path. */
export function requestUrl(provider: AddressedProvider, target: RequestTarget): URL {
  const path = pathAt(provider, target) ?? target.path;
  const url = new URL(provider.baseUrl + path.replaceAll('{model}', () => encodeSegment(target.model)));
  for (const [name, value] of Object.entries(provider.requests.query)) url.searchParams.set(name, value);
  return url;
}

/**
 * Encodes a model's name as a segment of the path. Throws VendorError if that's impossible. RFC 3986 allows some
 * punctuation there, so we keep e.g. the colons in Bedrock's names. Semicolons are allowed too, but some servers cut off
 * the segment there, so we encode them.
 */
export function encodeSegment(model: string): string {
  // URL parsers remove the segments `.` and `..`, even if they're encoded.
  if (/^\.{1,2}$/.test(model)) throw new VendorError('status', 'a model cannot be named "." or ".."', { status: 404 });
  return encodeURIComponent(model).replace(/%(?:3A|40|24|26|2B|2C|3D)/g, decodeURIComponent);
}
