import type { ReadCounters } from '../ceilings/counter-usage.ts';
import type { CatalogRow } from '../config/config.ts';
import type { Caller } from '../core/call.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { Audit } from '../people/audit.ts';
import type { People } from '../people/people.ts';
import type { HandleCall } from '../pipeline/call/handle-call.ts';
import type { Projects } from '../projects/projects.ts';
import type { PoolState } from '../routing/pools.ts';
import type { ReadBreakers } from '../routing/shared-breakers.ts';
import type { ActiveModels } from '../usage/prices/active-models.ts';
import type { UsageReports } from '../usage/reports.ts';
import type { StatusReport } from '../usage/status.ts';
import type { AppBase } from './base.ts';
import type { CallRecording } from './call-recording.ts';
import type { Erasures } from './erasures.ts';
import type { Learning } from './learning.ts';
import type { EraseSubject, Memory } from './memory.ts';

/** The dependencies of all console areas, from which each area picks what it uses. */
export interface ConsoleDeps extends Omit<AppBase, 'dataDir'> {
  readonly readCounters: ReadCounters;
  readonly people: People;
  readonly audit: Audit;
  readonly projects: Projects;
  readonly keyring: Keyring;
  readonly breakers: Breakers;
  readonly pools: PoolState;
  readonly readBreakers: ReadBreakers;
  readonly reports: UsageReports;
  readonly activeModels: ActiveModels<CatalogRow>;
  readonly memory: Memory;
  readonly learning: Learning;
  readonly erasures: Erasures;
  readonly eraseSubject: EraseSubject;
  readonly callRecording: CallRecording;
  readonly handleCall: HandleCall;
  /**
   * Runs a query after this process has stored its calls (or those of `projectId`), so that people see the calls that
   * they've just made.
   */
  readonly readStored: <Result>(query: () => Promise<Result>, projectId?: string) => Promise<Result>;
  readonly getStatus: (caller: Caller) => Promise<StatusReport>;
}
