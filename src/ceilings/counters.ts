/** Determines which counters a call counts against. They're checked in the order key, application, project. */
import type { GatewayError } from '../core/errors.ts';
import { gatewayError } from '../core/errors.ts';
import type { RefusalReason } from '../core/refusal.ts';
import { minuteMs } from '../core/time.ts';
import type { Ceiling, CeilingName, StoreDownPolicy, WindowKind } from '../core/windows.ts';
import { windowAt } from '../core/windows.ts';

export interface ProjectLimits {
  /**
   * The time (by `performance.now()`) just before we read the limits from the database. Each counter uses the limits
   * that were read last.
   */
  readonly readAt: number;
  readonly mayCall: boolean;
  readonly monthlyCapNanos: number | null;
  /** If this is absent or null, the configuration file decides. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** Ceilings by application name. An application that isn't listed has no ceilings. */
  readonly applications: ReadonlyMap<string, { readonly ceilings: { readonly calls: Ceiling; readonly cost: Ceiling } }>;
}

/** All ceilings that apply to a call. */
export interface Limits {
  readonly projectId: string;
  /** The id under which we count the key's usage. */
  readonly keyId: string;
  readonly source: string;
  /** The key's own policy. If it is absent or null, the project's policy applies. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** The key's ceilings with the time when we read them, as in `ProjectLimits`. It's absent if they never change. */
  readonly key: Readonly<Record<CeilingName, Ceiling>> & { readonly readAt?: number };
  readonly project: ProjectLimits;
}

export type CounterScope = 'key' | 'source' | 'project';

/** The natural key of a row of `limit_counters`. */
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

/** Reports whether a cost ceiling applies. If so, we mustn't send a call whose cost is unknown. */
export function hasCostCeiling({ key, source, project }: Limits): boolean {
  const application = project.applications.get(source)?.ceilings;
  return key.cost.limit !== null || (application?.cost.limit ?? null) !== null || project.monthlyCapNanos !== null;
}

/** Returns the counters of the windows that contain `epochMs`. Ceilings without a limit have no counter. */
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

/** The counters of a call, and how long we can use them for further calls with the same limits. */
interface CurrentCounters {
  readonly limits: Limits;
  readonly from: number;
  readonly until: number;
  readonly counters: readonly LimitedCounter[];
}

/**
 * Returns a variant of `countersFor` that caches the counters of each key until one of their windows ends or a ceiling
 * changes.
 */
export function createCounterCache(): typeof countersFor {
  // The map is keyed by the key's ceilings, because that object is replaced when a ceiling changes.
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

/** Formats a counter's key as a string, for use as a map key. */
export function formatCounterKey({ projectId, scope, scopeId, ceiling, window, start }: CounterKey): string {
  return `${projectId} ${scope} ${ceiling} ${window} ${start} ${scopeId}`;
}

/**
 * Creates the error of a call that the ceiling denies. If `isLasting` is true, it tells SDKs not to retry. See
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

/** Reports whether the counter's window will still be open in a minute, which is how long SDKs wait between their retries. */
export function isOpenInAMinute({ end }: CounterKey, epochMs: number): boolean {
  return end === null || end - epochMs > minuteMs;
}
