/** Finds the counters that a call counts against. They're checked in the order key, application, project. */
import { type GatewayError, gatewayError } from '../core/errors.ts';
import type { RefusalReason } from '../core/refusal.ts';
import { minuteMs } from '../core/time.ts';
import { type Ceiling, type CeilingName, type StoreDownPolicy, type WindowKind, windowAt } from '../core/windows.ts';

export interface ProjectLimits {
  /**
   * The time (`performance.now()`) just before these limits were read from the database. If calls bring different
   * limits for a counter, we use those that were read last.
   */
  readonly readAt: number;
  readonly mayCall: boolean;
  readonly monthlyCapNanos: number | null;
  /** Overrides gateway.yaml. Null if the project has no policy. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  readonly applications: ReadonlyMap<string, { readonly ceilings: { readonly calls: Ceiling; readonly cost: Ceiling } }>;
}

export interface Limits {
  readonly projectId: string;
  /** The id of the key whose usage we count. After a rotation, that's the id of the original key. */
  readonly keyId: string;
  readonly source: string;
  /** Overrides the project's policy. Null if the key has no policy. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** The ceilings of the key, with the time when they were read. `readAt` is missing if the ceilings can't change. */
  readonly key: Readonly<Record<CeilingName, Ceiling>> & { readonly readAt?: number };
  readonly project: ProjectLimits;
}

export type CounterScope = 'key' | 'source' | 'project';

/** Identifies a row in `limit_counters`. */
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
  readonly name: string;
  readonly limit: number;
  readonly readAt: number;
}

/** Returns true if any cost ceiling applies. We can't send calls whose cost is unknown in that case. */
export function hasCostCeiling({ key, source, project }: Limits): boolean {
  const application = project.applications.get(source)?.ceilings;
  return key.cost.limit !== null || (application?.cost.limit ?? null) !== null || project.monthlyCapNanos !== null;
}

/** Returns the counters of the current windows at `epochMs`. Ceilings without a limit have no counter. */
export function countersFor({ projectId, keyId, source, key, project }: Limits, epochMs: number): readonly LimitedCounter[] {
  const counters: LimitedCounter[] = [];
  const add = (scope: CounterScope, scopeId: string, ceiling: CeilingName, { limit, window }: Ceiling): void => {
    if (limit === null) return;
    const { start, end } = windowAt(window, epochMs);
    const counter = { projectId, scope, scopeId, ceiling, window, start, end };
    counters.push(counterAt(counter, limit, scope === 'key' ? (key.readAt ?? project.readAt) : project.readAt));
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

interface CurrentCounters {
  readonly limits: Limits;
  readonly from: number;
  readonly until: number;
  readonly counters: readonly LimitedCounter[];
}

/** Like `countersFor`, but caches the counters of each key until a window ends or a ceiling changes. */
export function createCounterCache(): typeof countersFor {
  // Whenever a key changes, it gets a new ceilings object. So we can use the object as the map key.
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

export function formatCounterKey({ projectId, scope, scopeId, ceiling, window, start }: CounterKey): string {
  return `${projectId} ${scope} ${ceiling} ${window} ${start} ${scopeId}`;
}

/**
 * Creates the error for a call that exceeds a ceiling. If `isLasting` is set, the response tells SDKs not to retry. See
 * docs/api/reference.md#rate-limits-and-ceilings.
 */
export function ceilingExceeded({ key, limit }: Pick<LimitedCounter, 'key' | 'limit'>, isLasting = false): GatewayError {
  const { scope, scopeId, ceiling, window } = key;
  const retry = isLasting ? ({ shouldRetry: false } as const) : {};
  const refused = (reason: RefusalReason) => ({ ...retry, refusal: { reason, rule: `${ceiling}/${window}`, limit } });
  switch (scope) {
    case 'key':
      return gatewayError('tenant_capped', { message: `key budget exceeded (${ceiling})`, ...refused('key_ceiling') });
    case 'source':
      return gatewayError('source_capped', {
        message: `source budget exceeded for '${scopeId}' (${ceiling})`,
        ...refused('application_ceiling'),
      });
    case 'project':
      return gatewayError('credits_exhausted', refused('project_cap'));
  }
}

/**
 * Returns true if the window will still be open in a minute, because SDKs wait no longer than that before they retry.
 */
export function isOpenInAMinute({ end }: CounterKey, epochMs: number): boolean {
  return end === null || end - epochMs > minuteMs;
}
