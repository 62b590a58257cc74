/**
 * `/provision/status` says whether the process that responds is ready, and how much work is waiting in the database. It
 * also responds while the database is down.
 */
import type { Router } from 'express';
import type { HealthDeps } from '../health.ts';
import type { Responders } from './responders.ts';

/** Work that is waiting, as numbers by name. */
export type WaitingWork = Readonly<Record<string, number>>;

export interface StatusRouteDeps {
  readonly health: HealthDeps;
  readonly version: string;
  /** Resolves to null if the database doesn't respond. */
  readonly readWork: () => Promise<WaitingWork | null>;
}

export function addStatusRoutes(router: Router, { read }: Responders, { health, version, readWork }: StatusRouteDeps): void {
  router.get(
    '/status',
    read(async () => {
      const [reasons, work] = await Promise.all([health.getNotReadyReasons(), readWork()]);
      const status = reasons.length === 0 ? 'ready' : 'not_ready';
      return { object: 'status', version, status, reasons, degraded: health.getDegradations(), work };
    }),
  );
}
