/** `GET /metrics` with the admin token: the metrics of the service on this port, for Prometheus. See docs/metrics.md. */
import type { Request, Response } from 'express';
import { contentType } from '../../observability/metrics/families.ts';
import { sendBytes } from '../error-handler.ts';

/** Of all processes on the port. */
export type ReadMetrics = () => Promise<string>;

export function createMetricsRoute(readMetrics: ReadMetrics) {
  return async (_request: Request, response: Response): Promise<void> => {
    sendBytes(response, 200, contentType, Buffer.from(await readMetrics()));
  };
}
