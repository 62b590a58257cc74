/** Which counters a call holds, in the order in which they may refuse it: key, application, project (decisions 6). */
import type { GatewayError } from '../core/errors.ts';
import { gatewayError } from '../core/errors.ts';
import type { CeilingName, WindowKind } from '../core/windows.ts';
import { windowAt } from '../core/windows.ts';

export interface Ceiling {
  /** Calls, tokens or nano-dollars; null for no limit. */
  readonly limit: number | null;
  readonly window: WindowKind;
}

/** A project's part in ceilings. */
export interface ProjectLimits {
  readonly mayCall: boolean;
  readonly monthlyCapNanos: number | null;
  /** By name; an application that is not there has no ceilings. */
  readonly applications: ReadonlyMap<string, { readonly ceilings: { readonly calls: Ceiling; readonly cost: Ceiling } }>;
}

/** All ceilings that apply to a call. */
export interface Limits {
  readonly projectId: string;
  /** The id that the key is counted under. */
  readonly keyId: string;
  readonly source: string;
  readonly key: Readonly<Record<CeilingName, Ceiling>>;
  readonly project: ProjectLimits;
}

export type CounterScope = 'key' | 'source' | 'project';

/** A row of `limit_counters`, by its name. */
export interface CounterKey {
  readonly projectId: string;
  readonly scope: CounterScope;
  readonly scopeId: string;
  readonly ceiling: CeilingName;
  readonly window: WindowKind;
  readonly start: number;
  readonly end: number | null;
}

export interface LimitedCounter {
  readonly key: CounterKey;
  readonly limit: number;
}

/** Whether a call whose cost cannot be told must not be made. */
export function hasCostCeiling({ key, source, project }: Limits): boolean {
  const application = project.applications.get(source)?.ceilings;
  return key.cost.limit !== null || (application?.cost.limit ?? null) !== null || project.monthlyCapNanos !== null;
}

/** Those of the windows of `epochMs`; ceilings without a limit have none. */
export function countersFor({ projectId, keyId, source, key, project }: Limits, epochMs: number): LimitedCounter[] {
  const counters: LimitedCounter[] = [];
  const add = (scope: CounterScope, scopeId: string, ceiling: CeilingName, { limit, window }: Ceiling): void => {
    if (limit === null) return;
    const { start, end } = windowAt(window, epochMs);
    counters.push({ key: { projectId, scope, scopeId, ceiling, window, start, end }, limit });
  };
  add('key', keyId, 'calls', key.calls);
  add('key', keyId, 'cost', key.cost);
  add('key', keyId, 'rpm', key.rpm);
  add('key', keyId, 'tpm', key.tpm);
  const application = project.applications.get(source)?.ceilings;
  if (application) {
    add('source', source, 'calls', application.calls);
    add('source', source, 'cost', application.cost);
  }
  add('project', '', 'cost', { limit: project.monthlyCapNanos, window: 'month' });
  return counters;
}

/** One text for a counter, as a key of maps. */
export function formatCounterKey({ projectId, scope, scopeId, ceiling, window, start }: CounterKey): string {
  return `${projectId} ${scope} ${ceiling} ${window} ${start} ${scopeId}`;
}

/** What a refused caller is told (specification 7.5). */
export function ceilingExceeded({ scope, scopeId, ceiling }: CounterKey): GatewayError {
  switch (scope) {
    case 'key':
      return gatewayError('tenant_capped', { message: `key budget exceeded (${ceiling})` });
    case 'source':
      return gatewayError('source_capped', { message: `source budget exceeded for '${scopeId}' (${ceiling})` });
    case 'project':
      return gatewayError('credits_exhausted');
  }
}
