/**
 * Circuit breakers, one per project and provider (shapes 16). An open breaker moves a provider's models to the end of a plan, never
 * out of it: when all are open they are called anyway.
 *
 * Opens after 5 provider faults in a row, or when at least half of at least 20 attempts within 60 s failed. Stays open 30 s, doubling
 * up to 5 min; then one probe at a time, and two successes close it.
 */

import type { Clock } from '../core/time.ts';
import { formatTime } from '../core/time.ts';

export type BreakerState = 'closed' | 'open' | 'half_open';

/** As `/status/peek` shows it. */
export interface BreakerReport {
  readonly provider: string;
  readonly state: BreakerState;
  readonly failures: number;
  readonly opened_at: string | null;
  readonly retry_at: string | null;
}

export interface Breakers {
  /** Whether the provider can be asked first. In half-open state the first who wants to gets the probe, and is to ask it. */
  tryAcquire(projectId: string, provider: string): boolean;
  /** Whether its models keep their place behind another, which may answer: nobody gets a probe. */
  isHealthy(projectId: string, provider: string): boolean;
  recordSuccess(projectId: string, provider: string): void;
  recordFailure(projectId: string, provider: string): void;
  /** A vendor's 429: its models go behind others until `untilMs`, five minutes at most. */
  coolDown(projectId: string, provider: string, untilMs: number): void;
  report(projectId: string, providers: readonly string[]): BreakerReport[];
}

interface Breaker {
  state: BreakerState;
  consecutiveFailures: number;
  successesInHalfOpen: number;
  openedAt: number | null;
  retryAt: number;
  openMs: number;
  /** Until then a probe is under way; bounded, since not every one is judged: its caller may leave, a media call may be refused. */
  probingUntil: number;
  coolingUntil: number;
  /** Attempts and faults of the last minute, in slices that are overwritten in turn; `slice` is the number of the newest since 1970. */
  bucket: number;
  readonly attempts: number[];
  readonly failures: number[];
}

const failuresToOpen = 5;
/** Six make the window of 60 s: an attempt stops counting when it is 50 to 60 s old. */
const bucketMs = 10_000;
const bucketsInWindow = 6;
const minAttempts = 20;
const baseOpenMs = 30_000;
const maxOpenMs = 300_000;
const successesToClose = 2;
const probeTimeoutMs = 10_000;

export function createBreakers(clock: Clock): Breakers {
  // Bounded by projects times configured providers: both are the operator's.
  const breakers = new Map<string, Breaker>();

  const find = (projectId: string, provider: string): Breaker => {
    const key = `${projectId} ${provider}`;
    let breaker = breakers.get(key);
    if (!breaker) {
      breaker = createBreaker(clock.now());
      breakers.set(key, breaker);
    }
    return breaker;
  };

  const count = (breaker: Breaker, fault: boolean): void => {
    const slice = bucketAt(clock.now());
    for (let next = Math.max(breaker.bucket + 1, slice - bucketsInWindow + 1); next <= slice; next += 1) {
      breaker.attempts[next % bucketsInWindow] = 0;
      breaker.failures[next % bucketsInWindow] = 0;
    }
    breaker.bucket = Math.max(breaker.bucket, slice);
    const place = breaker.bucket % bucketsInWindow;
    breaker.attempts[place] = (breaker.attempts[place] ?? 0) + 1;
    if (fault) breaker.failures[place] = (breaker.failures[place] ?? 0) + 1;
  };

  const open = (breaker: Breaker): void => {
    const now = clock.now();
    breaker.openMs = breaker.state === 'closed' ? baseOpenMs : Math.min(breaker.openMs * 2, maxOpenMs);
    Object.assign(breaker, { state: 'open', openedAt: now, retryAt: now + breaker.openMs, probingUntil: 0, successesInHalfOpen: 0 });
  };

  return {
    tryAcquire(projectId, provider) {
      const breaker = breakers.get(`${projectId} ${provider}`);
      if (!breaker) return true;
      const now = clock.now();
      if (breaker.coolingUntil > now) return false;
      if (breaker.state === 'closed') return true;
      if (breaker.state === 'open' && now < breaker.retryAt) return false;
      breaker.state = 'half_open';
      if (breaker.probingUntil > now) return false;
      breaker.probingUntil = now + probeTimeoutMs;
      return true;
    },
    isHealthy(projectId, provider) {
      const breaker = breakers.get(`${projectId} ${provider}`);
      return !breaker || (breaker.state === 'closed' && breaker.coolingUntil <= clock.now());
    },
    recordSuccess(projectId, provider) {
      const breaker = find(projectId, provider);
      count(breaker, false);
      breaker.consecutiveFailures = 0;
      breaker.probingUntil = 0;
      if (breaker.state === 'closed') return;
      // A success while open (all were open, so it was called anyway) counts like a probe's.
      breaker.state = 'half_open';
      breaker.successesInHalfOpen += 1;
      if (breaker.successesInHalfOpen >= successesToClose)
        Object.assign(breaker, { ...createBreaker(clock.now()), coolingUntil: breaker.coolingUntil });
    },
    recordFailure(projectId, provider) {
      const breaker = find(projectId, provider);
      count(breaker, true);
      breaker.consecutiveFailures += 1;
      const attempts = sum(breaker.attempts);
      const tooMany = breaker.consecutiveFailures >= failuresToOpen || (attempts >= minAttempts && sum(breaker.failures) * 2 >= attempts);
      // A provider that was called although its breaker is open, since there was no other, has had its probe when the time has passed.
      const isProbe = breaker.state === 'half_open' || (breaker.state === 'open' && clock.now() >= breaker.retryAt);
      if (isProbe || (breaker.state === 'closed' && tooMany)) open(breaker);
    },
    coolDown(projectId, provider, untilMs) {
      const breaker = find(projectId, provider);
      // Some vendors name days, some nonsense; asking once in a while costs little.
      breaker.coolingUntil = Math.max(breaker.coolingUntil, Math.min(untilMs, clock.now() + maxOpenMs));
      breaker.probingUntil = 0;
    },
    report(projectId, providers) {
      return providers.map((provider) => {
        const breaker = breakers.get(`${projectId} ${provider}`);
        const isClosed = !breaker || breaker.state === 'closed';
        return {
          provider,
          state: breaker?.state ?? 'closed',
          failures: breaker?.consecutiveFailures ?? 0,
          opened_at: isClosed || breaker.openedAt === null ? null : formatTime(breaker.openedAt),
          retry_at: isClosed ? null : formatTime(breaker.retryAt),
        };
      });
    },
  };
}

function createBreaker(now: number): Breaker {
  return {
    state: 'closed',
    consecutiveFailures: 0,
    successesInHalfOpen: 0,
    openedAt: null,
    retryAt: 0,
    openMs: baseOpenMs,
    probingUntil: 0,
    coolingUntil: 0,
    bucket: bucketAt(now),
    attempts: Array.from({ length: bucketsInWindow }, () => 0),
    failures: Array.from({ length: bucketsInWindow }, () => 0),
  };
}

function bucketAt(epochMs: number): number {
  return Math.floor(epochMs / bucketMs);
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
