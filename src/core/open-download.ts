/** Opens a download whose server may redirect or not respond. */
import { Readable } from 'node:stream';
import { isObject } from './json/narrow.ts';

interface DownloadOptions {
  /** Ends the download, the body included. */
  readonly signal: AbortSignal;
  /** Until the headers, redirects included. */
  readonly responseTimeoutMs?: number;
}

const maxRedirects = 5;

/**
 * The bytes at the address. Follows redirects only within its origin and to `https:`. Throws an error with the status, or with the reason why
 * it got no response.
 */
export async function openDownload(address: URL, { signal, responseTimeoutMs = 10_000 }: DownloadOptions): Promise<Readable> {
  // `fetch` keeps its signal for the body too, and this timeout ends with the headers.
  const tooLate = new AbortController();
  const timer = setTimeout(() => tooLate.abort(new Error(`no response within ${responseTimeoutMs / 1_000} seconds`)), responseTimeoutMs);
  try {
    const response = await fetchRedirected(address, AbortSignal.any([signal, tooLate.signal]), maxRedirects);
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    return Readable.fromWeb(response.body);
  } catch (error) {
    // `fetch` throws "fetch failed"; its cause says why.
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
    throw new Error('too many redirects, or one to an insecure address');
  return fetchRedirected(next, signal, redirectsLeft - 1);
}
