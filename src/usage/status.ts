/**
 * Builds the response of `GET /status/peek`. It shows what's left of the key's ceilings, what the project has spent,
 * and whether the project's providers are healthy.
 */
import type { Caller } from '../core/call.ts';
import { toUsd } from '../core/cost.ts';
import { type Clock, formatTimeOrNull } from '../core/time.ts';
import { type Ceiling, type CeilingName, windowAt, windowResetAt } from '../core/windows.ts';
import type { UsageReports } from './reports.ts';

export type Ceilings = Readonly<Record<CeilingName, Ceiling>>;

export interface StatusInput {
  readonly reports: UsageReports;
  readonly clock: Clock;
  readonly project: { readonly id: string; readonly slug: string; readonly settings: { readonly monthlyCapNanos: number | null } };
  readonly caller: Caller;
  /**
   * The ceilings of the caller's key. The values are calls, tokens or nano-dollars, and null means that there's no
   * limit.
   */
  readonly ceilings: Ceilings;
  readonly breakers: readonly unknown[];
  /**
   * True if the demo vendor serves the models, because clients need to know that its responses don't come from a real
   * model.
   */
  readonly demo: boolean;
  /**
   * Counters for the key's ceilings and for the project's monthly cap. A counter is missing if there's no limit or no
   * call has been counted yet.
   */
  readonly countedUsage: CountedUsage;
}

export interface CounterUsage {
  /** What settled calls have used, in calls, tokens or nano-dollars. */
  readonly used: number;
  /** How much running calls have reserved, i.e. the sum of their upper bounds. */
  readonly reserved: number;
}

export interface CountedUsage {
  readonly key: Readonly<Partial<Record<CeilingName, CounterUsage>>>;
  readonly month?: CounterUsage;
}

export type StatusReport = Awaited<ReturnType<typeof buildStatusReport>>;

const ceilingNames: readonly CeilingName[] = ['calls', 'cost', 'rpm', 'tpm'];

export async function buildStatusReport(input: StatusInput) {
  const { reports, clock, project, caller, ceilings, breakers, demo, countedUsage } = input;
  const now = clock.now();
  const isCounted = ceilingNames.every((name) => countedUsage.key[name]);
  const [usage, spent] = await Promise.all([
    isCounted ? null : reports.getKeyUsage(caller, { calls: ceilings.calls.window, cost: ceilings.cost.window }),
    countedUsage.month?.used ?? reports.getMonthSpend(project.id),
  ]);
  const report = (name: CeilingName, unit = (amount: number): number => amount) => {
    const { limit, window } = ceilings[name];
    // If admission has a counter for this ceiling, use that counter, so that the report agrees with it.
    const { used, reserved } = countedUsage.key[name] ?? { used: usage?.[name] ?? 0, reserved: 0 };
    return {
      limit: limit === null ? null : unit(limit),
      used: unit(used),
      reserved: unit(reserved),
      remaining: limit === null ? null : unit(Math.max(0, limit - used - reserved)),
      window,
      resets_at: windowResetAt(windowAt(window, now)),
    };
  };
  return {
    project: project.slug,
    key: {
      prefix: caller.keyPrefix,
      expires_at: formatTimeOrNull(caller.expiresAt),
      ceilings: { calls: report('calls'), cost: report('cost', toUsd), rpm: report('rpm'), tpm: report('tpm') },
    },
    credit: toCredit(spent, countedUsage.month?.reserved ?? 0, project.settings.monthlyCapNanos),
    breakers,
    ...(demo ? { demo: true } : {}),
  };
}

/**
 * Returns `near_cap` from 90 % of the cap (including reservations of running calls), and `exhausted` once the cap is
 * spent.
 */
function toCredit(spent: number, reserved: number, cap: number | null) {
  const isExhausted = cap !== null && spent >= cap;
  const isNear = cap !== null && spent + reserved >= cap * 0.9;
  const state: 'ok' | 'near_cap' | 'exhausted' = isExhausted ? 'exhausted' : isNear ? 'near_cap' : 'ok';
  return {
    state,
    monthly_cap: cap === null ? null : toUsd(cap),
    spent: toUsd(spent),
  };
}
