import { Readable } from 'node:stream';
import { isObject } from './json/narrow.ts';

interface DownloadOptions {
  readonly signal: AbortSignal;
  /** The time limit for the response headers, including redirects. */
  readonly responseTimeoutMs?: number;
}

const maxRedirects = 5;

/**
 * Returns the body of the response. We only follow redirects to `https:` or to the same origin. If the download fails,
 * the error says which HTTP status we got, or why there was no response.
 */
export async function openDownload(address: URL, { signal, responseTimeoutMs = 10_000 }: DownloadOptions): Promise<Readable> {
  // We clear this timeout once the headers have arrived, because a signal that's passed to `fetch` also aborts the
  // body.
  const tooLate = new AbortController();
  const timer = setTimeout(() => tooLate.abort(new Error(`no response within ${responseTimeoutMs / 1_000} seconds`)), responseTimeoutMs);
  try {
    const response = await fetchRedirected(address, AbortSignal.any([signal, tooLate.signal]), maxRedirects);
    if (!response.ok || !response.body) throw new Error(`the server responded with status ${response.status}`);
    return Readable.fromWeb(response.body);
  } catch (error) {
    // `fetch` only says "fetch failed". The actual reason is in the cause.
    throw isObject(error) && isObject(error['cause']) ? error['cause'] : error;
  } finally {
    clearTimeout(timer);
  }
}

async function fetchRedirected(address: URL, signal: AbortSignal, redirectsLeft: number): Promise<Response> {
  const response = await fetch(address, { redirect: 'manual', signal });
  const location = response.headers.get('location');
  if (response.status < 300 || response.status >= 400 || location === null) return response;
  await response.body?.cancel();
  const next = new URL(location, address);
  if (redirectsLeft === 0 || (next.protocol !== 'https:' && next.origin !== address.origin))
    throw new Error('the download was redirected too often, or to an insecure address');
  return fetchRedirected(next, signal, redirectsLeft - 1);
}
