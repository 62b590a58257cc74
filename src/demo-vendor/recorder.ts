/** Records the requests that the demo vendor received, for tests: the newest ones, bounded in number and in bytes. */
import type { IncomingHttpHeaders } from 'node:http';

export interface RecordedRequest {
  /** Counts this vendor's requests from 1, in the order in which their bodies were complete. */
  readonly requestNumber: number;
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

const maxRequests = 1_000;
const maxBodyBytes = 64 * 1024 * 1024;

export interface Recorder {
  record(request: Omit<RecordedRequest, 'requestNumber'>): RecordedRequest;
  /** Oldest first. */
  requests(): readonly RecordedRequest[];
  /** Deletes the requests; the counter continues. */
  clear(): void;
}

/** A ring buffer: a new request overwrites the oldest, so nothing is moved under load. */
export function createRecorder(): Recorder {
  const ring: RecordedRequest[] = [];
  let requestNumber = 0;
  let oldest = 0;
  let bodyBytes = 0;

  function record(request: Omit<RecordedRequest, 'requestNumber'>): RecordedRequest {
    requestNumber += 1;
    const recorded = { requestNumber, ...request };
    bodyBytes += request.body.length;
    if (ring.length < maxRequests) {
      ring.push(recorded);
    } else {
      bodyBytes -= ring[oldest]?.body.length ?? 0;
      ring[oldest] = recorded;
      oldest = (oldest + 1) % maxRequests;
    }
    // Reached only by very large bodies: drop all other requests instead of letting the process grow.
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
