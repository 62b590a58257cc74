/**
 * Circuit breakers, one per project and provider, or member of a provider's pool. An open breaker moves a provider's
 * models to the end of a plan, but doesn't remove them. If all breakers are open, we call the models anyway.
 *
 * A breaker opens after 5 failures in a row, or if at least half of at least 20 attempts within 60 s failed. It stays
 * open for 30 s at first, and after each failed probe for twice as long as before, up to 5 min. In the half-open state
 * it admits one probe at a time, and two successes close it.
 *
 * A stream may take minutes, so it counts as a success when its content begins. If the vendor breaks it off later, it
 * counts as a failure after all. Five broken streams without a complete response in between open the breaker too.
 *
 * @see docs/architecture/routing-and-failover.md
 */

import type { Clock } from '../core/time.ts';
import { formatTime } from '../core/time.ts';

export type BreakerState = 'closed' | 'open' | 'half_open';

/** A row of `/status/peek`. */
export interface BreakerReport {
  /** The provider, or `<provider>/<member>` for a member of a pool. */
  readonly provider: string;
  readonly state: BreakerState;
  readonly failures: number;
  readonly opened_at: string | null;
  readonly retry_at: string | null;
  /** Set while this process calls the provider last, because the vendor has responded with a 429. */
  readonly cooling_until?: string;
}

export interface Breakers {
  /**
   * Reports whether the provider may be tried first. In the half-open state, the first caller takes the probe slot and
   * has to send a request.
   */
  tryAcquire(projectId: string, provider: string): boolean;
  /** Reports what `tryAcquire` would return now, without taking the probe slot. */
  canAcquire(projectId: string, provider: string): boolean;
  /** Reports whether the provider's models keep their position after the first candidate. Takes no probe slot. */
  isHealthy(projectId: string, provider: string): boolean;
  /** `isComplete` is false for a stream that has only begun. Call `recordStreamEnd` when such a stream ends. */
  recordSuccess(projectId: string, provider: string, isComplete?: boolean): void;
  recordFailure(projectId: string, provider: string): void;
  /** Call this when the vendor has ended a stream that had begun. */
  recordStreamEnd(projectId: string, provider: string, isBroken: boolean): void;
  /** Called after a vendor's 429. Moves its models behind the others until `untilMs`, but for at most five minutes. */
  coolDown(projectId: string, provider: string, untilMs: number): void;
  report(projectId: string, providers: readonly string[]): BreakerReport[];
  /** For each provider, returns how many projects have an open or half-open breaker for it, or let it cool down. */
  countNotClosed(): ReadonlyMap<string, Readonly<Record<'open' | 'half_open' | 'cooling', number>>>;
}

interface Breaker {
  state: BreakerState;
  consecutiveFailures: number;
  /** The number of streams that broke off since the last complete response. */
  brokenStreams: number;
  successesInHalfOpen: number;
  openedAt: number | null;
  retryAt: number;
  openMs: number;
  /**
   * When the probe slot expires. Not every probe gets a verdict, because its caller may disconnect or a media call may
   * be refused.
   */
  probingUntil: number;
  coolingUntil: number;
  /**
   * The attempts and failures of the last minute, in a ring of buckets. `bucket` is the number of the newest bucket,
   * counted from 1970.
   */
  bucket: number;
  attempts: number[];
  failures: number[];
}

const failuresToOpen = 5;
/** Six buckets make up the window of 60 s, so an attempt stops counting when it's 50 to 60 s old. */
const bucketMs = 10_000;
const bucketsInWindow = 6;
const minAttempts = 20;
const baseOpenMs = 30_000;
const maxOpenMs = 300_000;
const successesToClose = 2;
const probeTimeoutMs = 10_000;

type OnChange = (projectId: string, provider: string, from: BreakerState, to: BreakerState) => void;

export function createBreakers(clock: Clock, onChange: OnChange = () => undefined): Breakers {
  // This can't grow beyond the number of projects times the number of configured providers.
  const byProject = new Map<string, Map<string, Breaker>>();
  const get = (projectId: string, provider: string): Breaker | undefined => byProject.get(projectId)?.get(provider);

  const find = (projectId: string, provider: string): Breaker => {
    const known = get(projectId, provider);
    if (known) return known;
    const breaker = createBreaker(clock.now());
    const ofProject = byProject.get(projectId) ?? new Map<string, Breaker>();
    byProject.set(projectId, ofProject.set(provider, breaker));
    return breaker;
  };

  const count = (breaker: Breaker, attempts: 0 | 1, failures: 0 | 1): void => {
    const current = bucketAt(clock.now());
    // The clock has jumped back, so we no longer know when the earlier attempts happened.
    if (current < breaker.bucket) Object.assign(breaker, { bucket: current, attempts: emptyBuckets(), failures: emptyBuckets() });
    for (let next = Math.max(breaker.bucket + 1, current - bucketsInWindow + 1); next <= current; next += 1) {
      breaker.attempts[next % bucketsInWindow] = 0;
      breaker.failures[next % bucketsInWindow] = 0;
    }
    breaker.bucket = Math.max(breaker.bucket, current);
    const index = breaker.bucket % bucketsInWindow;
    breaker.attempts[index] = (breaker.attempts[index] ?? 0) + attempts;
    breaker.failures[index] = (breaker.failures[index] ?? 0) + failures;
  };

  const open = (breaker: Breaker): void => {
    const now = clock.now();
    breaker.openMs = breaker.state === 'closed' ? baseOpenMs : Math.min(breaker.openMs * 2, maxOpenMs);
    Object.assign(breaker, { state: 'open', openedAt: now, retryAt: now + breaker.openMs, probingUntil: 0, successesInHalfOpen: 0 });
  };

  const succeed = (breaker: Breaker, projectId: string, provider: string): void => {
    breaker.probingUntil = 0;
    if (breaker.state === 'closed') return;
    // If a call succeeds while the breaker is open, the provider was called because all breakers were open. We count it
    // like a successful probe.
    const { state } = breaker;
    breaker.state = 'half_open';
    breaker.successesInHalfOpen += 1;
    if (breaker.successesInHalfOpen >= successesToClose)
      Object.assign(breaker, { ...createBreaker(clock.now()), coolingUntil: breaker.coolingUntil });
    if (breaker.state !== state) onChange(projectId, provider, state, breaker.state);
  };

  const fail = (breaker: Breaker, projectId: string, provider: string): void => {
    const attempts = sum(breaker.attempts);
    const tooMany =
      breaker.consecutiveFailures >= failuresToOpen ||
      breaker.brokenStreams >= failuresToOpen ||
      (attempts >= minAttempts && sum(breaker.failures) * 2 >= attempts);
    // After the open period, a call to a provider without alternatives counts as its probe.
    const isProbe = breaker.state === 'half_open' || (breaker.state === 'open' && !isAhead(breaker.retryAt, clock.now()));
    if (!isProbe && (breaker.state !== 'closed' || !tooMany)) return;
    const { state } = breaker;
    open(breaker);
    onChange(projectId, provider, state, 'open');
  };

  const isAcquirable = ({ state, coolingUntil, retryAt, probingUntil }: Breaker, now: number): boolean => {
    if (isAhead(coolingUntil, now)) return false;
    if (state === 'closed') return true;
    return (state !== 'open' || !isAhead(retryAt, now)) && !isAhead(probingUntil, now);
  };

  return {
    tryAcquire(projectId, provider) {
      const breaker = get(projectId, provider);
      if (!breaker) return true;
      const now = clock.now();
      const isAcquired = isAcquirable(breaker, now);
      if (!isAcquired || breaker.state === 'closed') return isAcquired;
      const isFirstProbe = breaker.state === 'open';
      Object.assign(breaker, { state: 'half_open', probingUntil: now + probeTimeoutMs });
      if (isFirstProbe) onChange(projectId, provider, 'open', 'half_open');
      return true;
    },
    canAcquire(projectId, provider) {
      const breaker = get(projectId, provider);
      return !breaker || isAcquirable(breaker, clock.now());
    },
    isHealthy(projectId, provider) {
      const breaker = get(projectId, provider);
      return !breaker || (breaker.state === 'closed' && !isAhead(breaker.coolingUntil, clock.now()));
    },
    recordSuccess(projectId, provider, isComplete = true) {
      const breaker = find(projectId, provider);
      count(breaker, 1, 0);
      breaker.consecutiveFailures = 0;
      if (isComplete) breaker.brokenStreams = 0;
      // If this provider's streams keep breaking off, the beginning of another one tells us nothing.
      if (breaker.brokenStreams < failuresToOpen) succeed(breaker, projectId, provider);
    },
    recordFailure(projectId, provider) {
      const breaker = find(projectId, provider);
      count(breaker, 1, 1);
      breaker.consecutiveFailures += 1;
      fail(breaker, projectId, provider);
    },
    recordStreamEnd(projectId, provider, isBroken) {
      const breaker = find(projectId, provider);
      if (isBroken) {
        count(breaker, 0, 1);
        breaker.brokenStreams += 1;
        fail(breaker, projectId, provider);
      } else if (breaker.brokenStreams > 0) {
        breaker.brokenStreams = 0;
        succeed(breaker, projectId, provider);
      }
    },
    coolDown(projectId, provider, untilMs) {
      const breaker = find(projectId, provider);
      // Some vendors ask for days, but an occasional attempt costs little.
      breaker.coolingUntil = Math.max(breaker.coolingUntil, Math.min(untilMs, clock.now() + maxOpenMs));
      breaker.probingUntil = 0;
    },
    countNotClosed() {
      const counts = new Map<string, { open: number; half_open: number; cooling: number }>();
      for (const ofProject of byProject.values())
        for (const [provider, { state, coolingUntil }] of ofProject) {
          const isCooling = isAhead(coolingUntil, clock.now());
          if (state === 'closed' && !isCooling) continue;
          const ofProvider = counts.get(provider) ?? { open: 0, half_open: 0, cooling: 0 };
          if (state !== 'closed') ofProvider[state] += 1;
          if (isCooling) ofProvider.cooling += 1;
          counts.set(provider, ofProvider);
        }
      return counts;
    },
    report(projectId, providers) {
      return providers.map((provider) => {
        const breaker = get(projectId, provider);
        const isClosed = !breaker || breaker.state === 'closed';
        return {
          provider,
          state: breaker?.state ?? 'closed',
          failures: breaker ? Math.max(breaker.consecutiveFailures, breaker.brokenStreams) : 0,
          opened_at: isClosed || breaker.openedAt === null ? null : formatTime(breaker.openedAt),
          retry_at: isClosed ? null : formatTime(breaker.retryAt),
          ...(breaker && isAhead(breaker.coolingUntil, clock.now()) && { cooling_until: formatTime(breaker.coolingUntil) }),
        };
      });
    },
  };
}

function createBreaker(now: number): Breaker {
  return {
    state: 'closed',
    consecutiveFailures: 0,
    brokenStreams: 0,
    successesInHalfOpen: 0,
    openedAt: null,
    retryAt: 0,
    openMs: baseOpenMs,
    probingUntil: 0,
    coolingUntil: 0,
    bucket: bucketAt(now),
    attempts: emptyBuckets(),
    failures: emptyBuckets(),
  };
}

/**
 * Reports whether a time is still in the future. If it's further ahead than `maxOpenMs`, it was set before the clock
 * jumped back, so we ignore it.
 */
function isAhead(epochMs: number, now: number): boolean {
  return epochMs > now && epochMs - now <= maxOpenMs;
}

function emptyBuckets(): number[] {
  return Array.from({ length: bucketsInWindow }, () => 0);
}

function bucketAt(epochMs: number): number {
  return Math.floor(epochMs / bucketMs);
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
