/** Finds the counters that a call counts against. They're checked in the order key, application, project. */
import { type GatewayError, gatewayError } from '../core/errors.ts';
import type { RefusalReason } from '../core/refusal.ts';
import { minuteMs } from '../core/time.ts';
import { type Ceiling, type CeilingName, type StoreDownPolicy, type WindowKind, windowAt } from '../core/windows.ts';

export interface ProjectLimits {
  /**
   * When we read these limits from the database, by `performance.now()`. The time is taken just before the read. If a
   * counter is given different limits, it uses the newest.
   */
  readonly readAt: number;
  readonly mayCall: boolean;
  readonly monthlyCapNanos: number | null;
  /** Takes precedence over gateway.yaml, unless it's null. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** The ceilings of each application, by name. Applications that aren't listed have no ceilings. */
  readonly applications: ReadonlyMap<string, { readonly ceilings: { readonly calls: Ceiling; readonly cost: Ceiling } }>;
}

export interface Limits {
  readonly projectId: string;
  /** The id of the key whose usage we count. For a rotated key, this is the id of the original key. */
  readonly keyId: string;
  readonly source: string;
  /** The key's own policy. It takes precedence over the project's policy unless it's null. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /**
   * The key's ceilings. `readAt` has the same meaning as in `ProjectLimits`. It's absent if the ceilings can never
   * change.
   */
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

/** Returns true if a cost ceiling applies. With one, we can't send calls whose cost is unknown. */
export function hasCostCeiling({ key, source, project }: Limits): boolean {
  const application = project.applications.get(source)?.ceilings;
  return key.cost.limit !== null || (application?.cost.limit ?? null) !== null || project.monthlyCapNanos !== null;
}

/**
 * Returns the counters for the windows that contain `epochMs`. If a ceiling has no limit, there's no counter for it.
 */
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

/** Counters that a call used. Until one of their windows ends, other calls with the same limits can use them, too. */
interface CurrentCounters {
  readonly limits: Limits;
  readonly from: number;
  readonly until: number;
  readonly counters: readonly LimitedCounter[];
}

/** Like `countersFor`, but caches the counters of each key until one of their windows ends or a ceiling changes. */
export function createCounterCache(): typeof countersFor {
  // A changed key has a new ceilings object, so we can use that as the map key.
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

/** Formats a counter's key for use as a map key. */
export function formatCounterKey({ projectId, scope, scopeId, ceiling, window, start }: CounterKey): string {
  return `${projectId} ${scope} ${ceiling} ${window} ${start} ${scopeId}`;
}

/**
 * Creates the error for a call that a ceiling denies. If `isLasting` is true, the response tells SDKs not to retry. See
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
 * Returns true if the window still lasts for at least a minute. That's the longest time that SDKs wait before a retry.
 */
export function isOpenInAMinute({ end }: CounterKey, epochMs: number): boolean {
  return end === null || end - epochMs > minuteMs;
}
