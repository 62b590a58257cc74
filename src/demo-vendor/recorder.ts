/** What was asked of the demo vendor, for tests to look at: the newest requests, bounded in number and in bytes. */
import type { IncomingHttpHeaders } from 'node:http';

export interface RecordedRequest {
  /** Counts the requests of this vendor from 1, in the order in which their bodies were complete. */
  readonly order: number;
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

const maxRequests = 1_000;
const maxBodyBytes = 64 * 1024 * 1024;

export interface Recorder {
  record(request: Omit<RecordedRequest, 'order'>): RecordedRequest;
  /** Oldest first. */
  requests(): readonly RecordedRequest[];
  /** Forgets the requests; the count goes on. */
  clear(): void;
}

/** A ring: a new request takes the place of the oldest, so that under load nothing moves. */
export function createRecorder(): Recorder {
  const ring: RecordedRequest[] = [];
  let order = 0;
  let oldest = 0;
  let bodyBytes = 0;

  function record(request: Omit<RecordedRequest, 'order'>): RecordedRequest {
    order += 1;
    const recorded = { order, ...request };
    bodyBytes += request.body.length;
    if (ring.length < maxRequests) {
      ring.push(recorded);
    } else {
      bodyBytes -= ring[oldest]?.body.length ?? 0;
      ring[oldest] = recorded;
      oldest = (oldest + 1) % maxRequests;
    }
    // Only very large bodies get here: all others are forgotten rather than that the process grows.
    if (bodyBytes > maxBodyBytes) keepOnly(recorded);
    return recorded;
  }

  function keepOnly(recorded: RecordedRequest): void {
    ring.length = 0;
    ring.push(recorded);
    oldest = 0;
    bodyBytes = recorded.body.length;
  }

  function clear(): void {
    ring.length = 0;
    oldest = 0;
    bodyBytes = 0;
  }

  return { record, requests: () => [...ring.slice(oldest), ...ring.slice(0, oldest)], clear };
}
