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

export function createRecorder(): Recorder {
  const newest: RecordedRequest[] = [];
  let requestNumber = 0;
  let bodyBytes = 0;
  return {
    record(request) {
      requestNumber += 1;
      const recorded = { requestNumber, ...request };
      newest.push(recorded);
      bodyBytes += request.body.length;
      while (newest.length > maxRequests || bodyBytes > maxBodyBytes) bodyBytes -= newest.shift()?.body.length ?? 0;
      return recorded;
    },
    requests: () => [...newest],
    clear() {
      newest.length = 0;
      bodyBytes = 0;
    },
  };
}
