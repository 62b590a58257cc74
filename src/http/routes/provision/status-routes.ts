/**
 * `/provision/status` reports whether this process is ready, and how much work is waiting in the database. It also
 * responds if the database is down.
 */
import type { HealthDeps } from '../health.ts';
import type { Responders } from './responders.ts';

export type WaitingWork = Readonly<Record<string, number>>;

export interface StatusRouteDeps {
  readonly health: HealthDeps;
  readonly version: string;
  /** Resolves to null if the database is unavailable. */
  readonly readWork: () => Promise<WaitingWork | null>;
}

export function addStatusRoutes({ read }: Responders, { health, version, readWork }: StatusRouteDeps): void {
  read('/status', async () => {
    const [reasons, work] = await Promise.all([health.getNotReadyReasons(), readWork()]);
    const status = reasons.length === 0 ? 'ready' : 'not_ready';
    return { object: 'status', version, status, reasons, degraded: health.getDegradations(), work };
  });
}
