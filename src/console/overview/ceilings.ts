/**
 * Reads the ceilings of a project, its keys and its applications, with their usage and a forecast of when they'll be
 * reached.
 */
import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import { countersFor, formatCounterKey, type LimitedCounter, type Limits } from '../../ceilings/counters.ts';
import { type Forecast, forecastCeiling } from '../../ceilings/forecast.ts';
import { hourMs } from '../../core/time.ts';
import { type KeyRecord, noCeilings } from '../../keys/key-record.ts';
import type { Project } from '../../projects/projects.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { amountOf } from '../frame/window-counters.ts';

export interface CeilingUse {
  readonly counter: LimitedCounter;
  readonly holder: string;
  /** The usage of settled calls. Null if there hasn't been a call since the ceiling was set. */
  readonly used: number | null;
  readonly reserved: number;
  readonly forecast: Forecast;
}

export interface CeilingsDeps {
  readonly analytics: Pick<Analytics, 'recentUse'>;
  readonly readCounters: ReadCounters;
}

/**
 * We base forecasts on the usage of the last seven days. If a project is younger than that, we use the time since it
 * was created, but at least an hour.
 */
const maxSpanMs = 7 * 24 * hourMs;

/**
 * Returns the ceilings with the highest usage first. Ceilings per minute are left out, because their usage is outdated
 * as soon as the page is displayed.
 */
export async function readCeilings(
  { analytics, readCounters }: CeilingsDeps,
  { project, keys, now }: { readonly project: Project; readonly keys: readonly KeyRecord[]; readonly now: number },
): Promise<readonly CeilingUse[]> {
  const listed = listCounters(project, keys, now);
  if (listed.length === 0) return [];
  const spanMs = Math.max(hourMs, Math.min(maxSpanMs, now - project.createdAt));
  const keysOfCounters = listed.map(({ counter }) => counter.key);
  const [counted, recent] = await Promise.all([
    readCounters(project.id, keysOfCounters),
    analytics.recentUse(project.id, { from: now - spanMs, to: now + 1 }),
  ]);
  const uses = listed.map(({ counter, holder }): CeilingUse => {
    const { key, limit } = counter;
    const usage = counted.get(formatCounterKey(key));
    const rate = amountOf(key, recent) / spanMs;
    const forecast = forecastCeiling({ limit, used: usage?.used ?? 0, rate, now, end: key.end });
    return { counter, holder, used: usage?.used ?? null, reserved: usage?.reserved ?? 0, forecast };
  });
  return uses.toSorted((left, right) => fullness(right) - fullness(left));
}

function fullness({ used, counter }: CeilingUse): number {
  return counter.limit === 0 ? 1 : (used ?? 0) / counter.limit;
}

function listCounters(project: Project, keys: readonly KeyRecord[], now: number): { counter: LimitedCounter; holder: string }[] {
  const countersOf = (holder: string, { source = '', keyId = '', key = noCeilings }: Partial<Limits>) =>
    countersFor({ projectId: project.id, keyId, source, key, project: project.settings }, now).map((counter) => ({ counter, holder }));
  const usable = keys.filter(({ revokedAt, expiresAt }) => revokedAt === null && (expiresAt === null || expiresAt > now));
  const all = [
    ...countersOf(project.name, {}),
    ...usable.flatMap(({ quotaKeyId, name, ceilings }) => countersOf(name, { keyId: quotaKeyId, key: ceilings })),
    ...[...project.settings.applications.keys()].flatMap((source) => countersOf(source, { source })),
  ];
  const lasting = all.filter(({ counter }) => counter.key.window !== 'minute');
  // Remove duplicates, because rotated keys share counters and every list contains the project's ceilings.
  return [...new Map(lasting.map((entry) => [formatCounterKey(entry.counter.key), entry])).values()];
}
