/**
 * `GET /metrics` returns the metrics of the service on this port for Prometheus, and requires the admin token. See
 * docs/metrics.md.
 */
import type { Request, Response } from 'express';
import { contentType } from '../../observability/metrics/families.ts';
import { sendBytes } from '../error-handler.ts';

/** Returns the metrics of all processes on the port. */
export type ReadMetrics = () => Promise<string>;

export function createMetricsRoute(readMetrics: ReadMetrics) {
  return async (_request: Request, response: Response): Promise<void> => {
    sendBytes(response, 200, contentType, Buffer.from(await readMetrics()));
  };
}
