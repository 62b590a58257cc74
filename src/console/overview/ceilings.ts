/** The ceilings of a project with their use: its cap, those of its keys and of its applications, and when each is reached. */
import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import { type CounterKey, countersFor, formatCounterKey, type LimitedCounter, type Limits } from '../../ceilings/counters.ts';
import { type Forecast, forecastCeiling } from '../../ceilings/forecast.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { Project } from '../../projects/projects.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { RecentUse, Use } from '../../usage/analytics/recent-use.ts';

export interface CeilingUse {
  readonly counter: LimitedCounter;
  /** Name of the key, or of the application. */
  readonly holder: string;
  /** Of settled calls. Null when no call was counted since the ceiling was set. */
  readonly used: number | null;
  readonly reserved: number;
  readonly forecast: Forecast;
}

export interface CeilingsDeps {
  readonly analytics: Pick<Analytics, 'recentUse'>;
  readonly readCounters: ReadCounters;
}

/** The rate of a forecast is that of the last seven days. */
const rateMs = 7 * 86_400_000;

const unlimited = { limit: null, window: 'month' } as const;
const noKeyCeilings: Limits['key'] = { calls: unlimited, cost: unlimited, rpm: unlimited, tpm: unlimited };

/** The fullest first. Per-minute ceilings are left out: their use is over before the page is read. */
export async function readCeilings(
  { analytics, readCounters }: CeilingsDeps,
  { project, keys, now }: { readonly project: Project; readonly keys: readonly KeyRecord[]; readonly now: number },
): Promise<readonly CeilingUse[]> {
  const listed = listCounters(project, keys, now);
  if (listed.length === 0) return [];
  const keysOfCounters = listed.map(({ counter }) => counter.key);
  const [counted, recent] = await Promise.all([
    readCounters(project.id, keysOfCounters),
    analytics.recentUse(project.id, { from: now - rateMs, to: now + 1 }),
  ]);
  const uncounted = keysOfCounters.filter((key) => !counted.has(formatCounterKey(key)));
  const sinceWindow = await readWindows(analytics, project.id, uncounted, now);
  const uses = listed.map(({ counter, holder }): CeilingUse => {
    const { key, limit } = counter;
    const usage = counted.get(formatCounterKey(key));
    // A new ceiling has no counter until the first call; by then it counts the window's earlier calls too.
    const window = sinceWindow.get(key.start);
    const used = usage?.used ?? (window ? amountOf(key, window) : null);
    const forecast = forecastCeiling({ limit, used: used ?? 0, rate: amountOf(key, recent) / rateMs, now, end: key.end });
    return { counter, holder, used, reserved: usage?.reserved ?? 0, forecast };
  });
  return uses.toSorted((left, right) => fullness(right) - fullness(left));
}

function fullness({ used, counter }: CeilingUse): number {
  return counter.limit === 0 ? 1 : (used ?? 0) / counter.limit;
}

function listCounters(project: Project, keys: readonly KeyRecord[], now: number): { counter: LimitedCounter; holder: string }[] {
  const { settings } = project;
  const limitsOf = (source: string, keyId: string, key: Limits['key']): Limits => ({
    projectId: project.id,
    keyId,
    source,
    key,
    project: settings,
  });
  const usable = keys.filter(({ revokedAt, expiresAt }) => revokedAt === null && (expiresAt === null || expiresAt > now));
  const byKey = usable.flatMap(({ quotaKeyId, name, ceilings }) =>
    countersFor(limitsOf('', quotaKeyId, ceilings), now).map((counter) => ({ counter, holder: name })),
  );
  const bySource = [...settings.applications.keys()].flatMap((source) =>
    countersFor(limitsOf(source, '', noKeyCeilings), now).map((counter) => ({ counter, holder: source })),
  );
  const all = [
    ...countersFor(limitsOf('', '', noKeyCeilings), now).map((counter) => ({ counter, holder: project.name })),
    ...byKey,
    ...bySource,
  ];
  const lasting = all.filter(({ counter }) => counter.key.window !== 'minute');
  // Rotated keys share counters, and every list has the project's.
  return [...new Map(lasting.map((entry) => [formatCounterKey(entry.counter.key), entry])).values()];
}

/** Use since the start of each day and month, by start. Windows without an end are not read: they may contain every call. */
async function readWindows(
  analytics: Pick<Analytics, 'recentUse'>,
  projectId: string,
  counters: readonly CounterKey[],
  now: number,
): Promise<ReadonlyMap<number, RecentUse>> {
  const starts = new Set(counters.flatMap(({ start, end }) => (end === null ? [] : [start])));
  return new Map(
    await Promise.all([...starts].map(async (from) => [from, await analytics.recentUse(projectId, { from, to: now + 1 })] as const)),
  );
}

function amountOf({ scope, scopeId, ceiling }: CounterKey, recent: RecentUse): number {
  const none: Use = { calls: 0, cost: 0 };
  const use = scope === 'project' ? recent.project : ((scope === 'key' ? recent.keys : recent.applications).get(scopeId) ?? none);
  return ceiling === 'cost' ? use.cost : use.calls;
}
