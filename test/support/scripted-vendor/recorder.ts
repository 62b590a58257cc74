/** Records the newest requests that the scripted vendor received, up to a maximum number and size. */
import type { IncomingHttpHeaders } from 'node:http';
import type { DemoRequest } from '../../../src/demo-vendor/response.ts';

export interface RecordedRequest {
  /** Requests are numbered from 1, in the order in which we've received their whole body. */
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
  record(request: DemoRequest): RecordedRequest;
  /** Returns the recorded requests, oldest first. */
  requests(): readonly RecordedRequest[];
  clear(): void;
}

export function createRecorder(): Recorder {
  const newest: RecordedRequest[] = [];
  let bodyBytes = 0;
  return {
    record({ requestNumber, method, url: path, headers, body }) {
      const recorded = { requestNumber, method, path, headers, body };
      newest.push(recorded);
      bodyBytes += body.length;
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
