/** The counters a call is counted against, in refusal order: key, application, project. */
import type { GatewayError } from '../core/errors.ts';
import { gatewayError } from '../core/errors.ts';
import { minuteMs } from '../core/time.ts';
import type { Ceiling, CeilingName, StoreDownPolicy, WindowKind } from '../core/windows.ts';
import { windowAt } from '../core/windows.ts';

/** The ceilings of a project. */
export interface ProjectLimits {
  /** A time of `performance.now()` before they were read from the database: each counter uses the limit that was read last. */
  readonly readAt: number;
  readonly mayCall: boolean;
  readonly monthlyCapNanos: number | null;
  /** If this is absent or null, the configuration file decides. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** By name; an application that is not listed has no ceilings. */
  readonly applications: ReadonlyMap<string, { readonly ceilings: { readonly calls: Ceiling; readonly cost: Ceiling } }>;
}

/** All ceilings that apply to a call. Those of a key never change; a rotated one has those of its predecessor. */
export interface Limits {
  readonly projectId: string;
  /** Id under which the key's usage is counted. */
  readonly keyId: string;
  readonly source: string;
  /** The key's own policy. If it is absent or null, the project's policy applies. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  readonly key: Readonly<Record<CeilingName, Ceiling>>;
  readonly project: ProjectLimits;
}

export type CounterScope = 'key' | 'source' | 'project';

/** Natural key of a row of `limit_counters`. */
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
  /** `formatCounterKey` of the key. */
  readonly name: string;
  readonly limit: number;
  /** `readAt` of the project's limits. */
  readonly readAt: number;
}

/** Whether a cost ceiling applies: a call of unknown cost must not be sent then. */
export function hasCostCeiling({ key, source, project }: Limits): boolean {
  const application = project.applications.get(source)?.ceilings;
  return key.cost.limit !== null || (application?.cost.limit ?? null) !== null || project.monthlyCapNanos !== null;
}

/** The counters of the windows that contain `epochMs`; none for ceilings without a limit. */
export function countersFor({ projectId, keyId, source, key, project }: Limits, epochMs: number): readonly LimitedCounter[] {
  const counters: LimitedCounter[] = [];
  const add = (scope: CounterScope, scopeId: string, ceiling: CeilingName, { limit, window }: Ceiling): void => {
    if (limit === null) return;
    const { start, end } = windowAt(window, epochMs);
    const counter = { projectId, scope, scopeId, ceiling, window, start, end };
    counters.push(counterAt(counter, limit, project.readAt));
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

export function counterAt(key: CounterKey, limit: number, readAt: number): LimitedCounter {
  return { key, name: formatCounterKey(key), limit, readAt };
}

/** Counters of a call, and the time for which they are the same for further calls with these limits. */
interface CurrentCounters {
  readonly limits: Limits;
  readonly from: number;
  readonly until: number;
  readonly counters: readonly LimitedCounter[];
}

/** Returns a `countersFor` that keeps the counters of the last call of each key until one of their windows ends or a ceiling changes. */
export function createCounterCache(): typeof countersFor {
  // By the key's ceilings, which are replaced as a whole when they change.
  const byKey = new WeakMap<Limits['key'], CurrentCounters>();
  return (limits, epochMs) => {
    const current = byKey.get(limits.key);
    if (current && epochMs >= current.from && epochMs < current.until && isSameCaller(current.limits, limits)) return current.counters;
    const counters = countersFor(limits, epochMs);
    const from = Math.max(...counters.map(({ key }) => key.start));
    const until = Math.min(...counters.map(({ key }) => key.end ?? Number.POSITIVE_INFINITY));
    byKey.set(limits.key, { limits, from, until, counters });
    return counters;
  };
}

function isSameCaller(left: Limits, right: Limits): boolean {
  return left.keyId === right.keyId && left.project === right.project && left.source === right.source && left.projectId === right.projectId;
}

/** One string for a counter, for use as a map key. */
export function formatCounterKey({ projectId, scope, scopeId, ceiling, window, start }: CounterKey): string {
  return `${projectId} ${scope} ${ceiling} ${window} ${start} ${scopeId}`;
}

/**
 * Error of a call that the ceiling denies. If `isLasting` is true, SDKs are told not to retry. See
 * docs/api/reference.md#rate-limits-and-ceilings.
 */
export function ceilingExceeded({ scope, scopeId, ceiling }: CounterKey, isLasting = false): GatewayError {
  const retry = isLasting ? ({ shouldRetry: false } as const) : {};
  switch (scope) {
    case 'key':
      return gatewayError('tenant_capped', { message: `key budget exceeded (${ceiling})`, ...retry });
    case 'source':
      return gatewayError('source_capped', { message: `source budget exceeded for '${scopeId}' (${ceiling})`, ...retry });
    case 'project':
      return gatewayError('credits_exhausted', retry);
  }
}

/** Reports whether the counter's window will still be open in a minute, which is how long SDKs wait between their retries. */
export function isOpenInAMinute({ end }: CounterKey, epochMs: number): boolean {
  return end === null || end - epochMs > minuteMs;
}
