/**
 * `/healthz` only reports that the process is running. `/readyz` reports whether it can do its work. API processes
 * serve calls, and workers run durable work.
 */
import type { Request, Response } from 'express';
import type { Logger } from '../../observability/logger.ts';
import { sendJson } from '../error-handler.ts';

export interface HealthDeps {
  /** Returns why the process can't do its work. If it can, the list is empty. */
  readonly getNotReadyReasons: () => Promise<readonly string[]>;
  /** Returns problems that exist at the moment but don't keep the process from being ready. */
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
      if (wasReady && !isReady) logger.warn({ reason: reasons.join('; ') }, 'not ready');
      if (!wasReady && isReady) logger.info({}, 'ready again');
      wasReady = isReady;
      const [status, state] = isReady ? ([200, 'ready'] as const) : ([503, 'not_ready'] as const);
      sendJson(response, status, { status: state, reasons, degraded: getDegradations() });
    },
  };
}
