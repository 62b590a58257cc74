/**
 * Circuit breakers. There's one per project and provider, or per member of a provider's pool. If a breaker is open, the
 * provider's models move to the end of the plan, but they aren't removed. So if all breakers are open, we still call
 * the models.
 *
 * A breaker opens after 5 consecutive failures, or if at least half of the attempts within 60 s failed and there were
 * at least 20. It stays open for 30 s. After each failed probe this time doubles, up to 5 min. Then the breaker is
 * half-open and admits one probe at a time. Two successful probes close it.
 *
 * A stream can take minutes, so it counts as a success as soon as its content begins. If the vendor breaks it off
 * later, it counts as a failure instead. The breaker also opens after five broken streams without a complete response
 * in between.
 *
 * @see docs/architecture/routing-and-failover.md
 */

import { type Clock, formatTime } from '../core/time.ts';

export type BreakerState = 'closed' | 'open' | 'half_open';

export interface BreakerReport {
  readonly provider: string;
  readonly state: BreakerState;
  readonly failures: number;
  readonly opened_at: string | null;
  readonly retry_at: string | null;
  /** Set after a 429. Until this time, the provider's models are tried after all others. */
  readonly cooling_until?: string;
}

export interface Breakers {
  /**
   * Returns true if the provider can be tried first. For a half-open breaker this takes the probe slot, so the caller
   * has to send a request.
   */
  tryAcquire(projectId: string, provider: string): boolean;
  /** Like `tryAcquire`, but doesn't take the probe slot of a half-open breaker. */
  canAcquire(projectId: string, provider: string): boolean;
  /**
   * Returns true if the provider's models can keep their place in the plan. Doesn't take the probe slot, so use it for
   * all models except the first one.
   */
  isHealthy(projectId: string, provider: string): boolean;
  /** Pass `isComplete: false` if a stream has only begun, and call `recordStreamEnd` when it ends. */
  recordSuccess(projectId: string, provider: string, isComplete?: boolean): void;
  recordFailure(projectId: string, provider: string): void;
  /** `isBroken` is true if the vendor broke off the stream. */
  recordStreamEnd(projectId: string, provider: string, isBroken: boolean): void;
  /**
   * Call this after a 429. The provider's models move to the end of plans until `untilMs`, but for five minutes at
   * most.
   */
  coolDown(projectId: string, provider: string, untilMs: number): void;
  report(projectId: string, providers: readonly string[]): BreakerReport[];
  countNotClosed(): ReadonlyMap<string, Readonly<Record<'open' | 'half_open' | 'cooling', number>>>;
}

interface Breaker {
  state: BreakerState;
  consecutiveFailures: number;
  /** The number of consecutive streams that the vendor has broken off. */
  brokenStreams: number;
  successesInHalfOpen: number;
  openedAt: number | null;
  retryAt: number;
  openMs: number;
  /**
   * When the probe slot becomes available again. We can't wait for the result of a probe forever, because e.g. the
   * caller may disconnect.
   */
  probingUntil: number;
  coolingUntil: number;
  /**
   * A ring buffer that counts the attempts and failures of the last minute. `bucket` is the number of the newest
   * bucket, counted from 1970.
   */
  bucket: number;
  attempts: number[];
  failures: number[];
}

const failuresToOpen = 5;
/** The 60 s window has six buckets, so an attempt stops counting after 50 to 60 s. */
const bucketMs = 10_000;
const bucketsInWindow = 6;
const minAttempts = 20;
const baseOpenMs = 30_000;
const maxOpenMs = 300_000;
const successesToClose = 2;
const probeTimeoutMs = 10_000;

type OnChange = (projectId: string, provider: string, from: BreakerState, to: BreakerState) => void;

export function createBreakers(clock: Clock, onChange: OnChange = () => undefined): Breakers {
  // One entry per project and configured provider, so the size is bounded.
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
    // The clock has been set back, so we no longer know how old the counted attempts are. Start over.
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
    // If a probe has failed, `openedAt` is still set. It's the same outage, so keep its start.
    const openedAt = breaker.openedAt ?? now;
    Object.assign(breaker, { state: 'open', openedAt, retryAt: now + breaker.openMs, probingUntil: 0, successesInHalfOpen: 0 });
  };

  const succeed = (breaker: Breaker, projectId: string, provider: string): void => {
    breaker.probingUntil = 0;
    if (breaker.state === 'closed') return;
    // We only call a provider with an open breaker if there's no alternative. If that works, it tells us as much as a
    // successful probe, so count it as one.
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
    // A provider without alternatives is called even if its breaker is open. After the open period, such a call counts
    // as a probe.
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
      // If the last streams have all broken off, starting another one doesn't prove that the provider works.
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
      // Some vendors ask us to wait for days. Limit the cooldown, because an occasional attempt doesn't cost much.
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
 * Returns true if a time is in the future. Times further ahead than `maxOpenMs` were set before the clock was set back,
 * so we ignore them.
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
