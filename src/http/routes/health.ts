/**
 * `/healthz` reports that the process is running. `/readyz` reports whether it can do its work, i.e. serve calls or run
 * durable work.
 */
import type { Request, Response } from 'express';
import type { Logger } from '../../observability/logger.ts';
import { sendJson } from '../error-handler.ts';

export interface HealthDeps {
  /** Returns the reasons why `/readyz` responds with 503. Empty if the process is ready. */
  readonly getNotReadyReasons: () => Promise<readonly string[]>;
  /** Returns problems that people should know about, but that don't make `/readyz` fail. */
  readonly getDegradations: () => readonly string[];
}

interface HealthRouteDeps extends HealthDeps {
  readonly logger: Pick<Logger, 'info' | 'warn'>;
}

export function createHealthRoutes({ getNotReadyReasons, getDegradations, logger }: HealthRouteDeps) {
  let wasReady = true;

  return {
    healthz(_request: Request, response: Response): void {
      sendJson(response, 200, { status: 'ok' });
    },
    async readyz(_request: Request, response: Response): Promise<void> {
      const reasons = await getNotReadyReasons();
      const isReady = reasons.length === 0;
      if (wasReady && !isReady) logger.warn({ reason: reasons.join('; ') }, 'service is not ready');
      if (!wasReady && isReady) logger.info({}, 'service is ready again');
      wasReady = isReady;
      const [status, state] = isReady ? ([200, 'ready'] as const) : ([503, 'not_ready'] as const);
      sendJson(response, status, { status: state, reasons, degraded: getDegradations() });
    },
  };
}
