/**
 * `GET /metrics` for Prometheus, which requires the admin token. See docs/metrics.md.
 */
import type { Request, Response } from 'express';
import { contentType } from '../../observability/metrics/families.ts';
import { sendBytes } from '../error-handler.ts';

export type ReadMetrics = () => Promise<string>;

export function createMetricsRoute(readMetrics: ReadMetrics) {
  return async (_request: Request, response: Response): Promise<void> => {
    sendBytes(response, 200, contentType, Buffer.from(await readMetrics()));
  };
}
