/** `/healthz`: the process runs; checks nothing else. `/readyz`: the process can serve calls. */
import type { Request, Response } from 'express';
import { sendJson } from '../error-handler.ts';

export interface HealthDeps {
  /** Why calls cannot be served; empty when they can. */
  readonly getNotReadyReasons: () => Promise<readonly string[]>;
}

export function createHealthRoutes({ getNotReadyReasons }: HealthDeps) {
  return {
    healthz(_request: Request, response: Response): void {
      sendJson(response, 200, { status: 'ok' });
    },
    async readyz(_request: Request, response: Response): Promise<void> {
      const reasons = await getNotReadyReasons();
      sendJson(response, reasons.length === 0 ? 200 : 503, { status: reasons.length === 0 ? 'ready' : 'not_ready', reasons });
    },
  };
}
