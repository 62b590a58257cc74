/**
 * Detects attempts that have been waiting far longer for their first content than is usual for their model. Otherwise a
 * vendor that hangs would look healthy until each attempt times out, which takes minutes by default.
 *
 * The usual wait of a model is about the 95th percentile of its waits in this process. We don't use a mean, because a
 * few long answers of a reasoning model would shift it. We only learn from waits that ended with content, so that the
 * waits of a vendor that hangs don't become usual.
 *
 * @see docs/architecture/routing-and-failover.md#slow-attempts
 */
import { LRUCache } from 'lru-cache';
import { type Candidate, connectionKey } from '../core/candidate.ts';

export interface ContentWait {
  readonly projectId: string;
  readonly provider: string;
  /** Identifies the breaker, which is that of the provider or of the member of its pool. */
  readonly breakerKey: string;
  /** The tick at which the wait started. */
  readonly startedAt: number;
  /** True once the attempt has waited far longer than usual and we've reported it. */
  isSlow: boolean;
  readonly usual: UsualWait;
}

/** How long a model usually takes to send its first content. */
interface UsualWait {
  ticks: number;
  count: number;
}

export interface WaitingAttempt {
  readonly projectId: string;
  readonly candidate: Pick<Candidate, 'id' | 'provider' | 'member'>;
  /** A plain response has no content until it's complete, so we compare it only with other plain responses. */
  readonly isStream: boolean;
}

export interface ContentWaits {
  begin(attempt: WaitingAttempt): ContentWait;
  /** Ends the wait. If it ended with content, it counts toward the usual wait. Call this once. */
  end(wait: ContentWait, hasContent: boolean): void;
  /** Returns the number of slow attempts since the process started, by provider. */
  countSlow(): ReadonlyMap<string, number>;
}

/**
 * We count ticks of the event loop instead of time, so that waits don't look long because the process was busy or
 * suspended, or because its clock has jumped.
 */
const defaultTickMs = 1_000;
const slowFactor = 4;
/** We treat shorter waits like this one, so an attempt is slow after ten ticks at the earliest. */
const minUsualTicks = 2.5;
/** The usual wait that we assume until we've seen enough waits, because a reasoning model may not have finished any. */
const assumedTicks = 15;
const waitsToLearn = 20;
/**
 * Each longer wait raises the estimate by a fifth, and each shorter one lowers it by a hundredth. The estimate settles
 * where one of twenty waits is longer, and no single wait changes it much.
 */
const raise = 1.2;
const lower = 0.99;
/** We need a limit because callers may name any model. */
const maxModels = 10_000;

/** Calls `onSlow` once for each slow attempt, while the attempt is still waiting. */
export function createContentWaits(onSlow: (wait: ContentWait) => void, tickMs = defaultTickMs): ContentWaits {
  const streams = new LRUCache<string, UsualWait>({ max: maxModels });
  const plain = new LRUCache<string, UsualWait>({ max: maxModels });
  const waiting = new Set<ContentWait>();
  const slowAttempts = new Map<string, number>();
  let now = 0;
  let timer: NodeJS.Timeout | undefined;

  const tick = (): void => {
    now += 1;
    for (const wait of waiting) {
      if (wait.isSlow || now - wait.startedAt <= slowAfter(wait.usual)) continue;
      wait.isSlow = true;
      slowAttempts.set(wait.provider, (slowAttempts.get(wait.provider) ?? 0) + 1);
      onSlow(wait);
    }
    if (waiting.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  return {
    begin({ projectId, candidate, isStream }) {
      const { id, provider } = candidate;
      const byModel = isStream ? streams : plain;
      let usual = byModel.get(id);
      if (!usual) {
        usual = { ticks: 0, count: 0 };
        byModel.set(id, usual);
      }
      const wait = { projectId, provider, breakerKey: connectionKey(candidate), startedAt: now, isSlow: false, usual };
      waiting.add(wait);
      timer ??= setInterval(tick, tickMs).unref();
      return wait;
    },
    end(wait, hasContent) {
      waiting.delete(wait);
      if (hasContent) learn(wait.usual, now - wait.startedAt);
    },
    countSlow: () => slowAttempts,
  };
}

function slowAfter({ ticks, count }: UsualWait): number {
  return slowFactor * Math.max(ticks, count < waitsToLearn ? assumedTicks : minUsualTicks);
}

function learn(usual: UsualWait, ticks: number): void {
  if (usual.count < waitsToLearn) {
    usual.count += 1;
    usual.ticks = Math.max(usual.ticks, ticks);
  } else if (ticks > usual.ticks) usual.ticks = Math.max(usual.ticks, minUsualTicks) * raise;
  else usual.ticks = Math.max(usual.ticks * lower, minUsualTicks);
}
