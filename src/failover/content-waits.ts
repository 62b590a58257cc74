/**
 * Detects attempts that wait far longer for their first content than is usual for their model. Otherwise a hanging
 * vendor would look healthy until attempts time out, which takes minutes by default.
 *
 * A model's usual wait is about the 95th percentile of its waits in this process. A mean wouldn't work, because a few
 * long answers from a reasoning model would shift it. We only learn from waits that ended with content. Otherwise the
 * waits for a hanging vendor would soon count as usual.
 *
 * @see docs/architecture/routing-and-failover.md#slow-attempts
 */
import { type Candidate, connectionKey } from '../core/candidate.ts';
import { createLruCache } from '../core/lru-cache.ts';

export interface ContentWait {
  readonly projectId: string;
  readonly provider: string;
  readonly breakerKey: string;
  /** The number of the tick in which the call started to wait. */
  readonly startedAt: number;
  /** True once this wait has been reported as slow, so that it's only reported once. */
  isSlow: boolean;
  readonly usual: UsualWait;
}

interface UsualWait {
  ticks: number;
  count: number;
}

export interface WaitingAttempt {
  readonly projectId: string;
  readonly candidate: Pick<Candidate, 'id' | 'provider' | 'member'>;
  /**
   * Without streaming, the first content only arrives together with the rest of the response, so we track plain
   * responses and streams separately.
   */
  readonly isStream: boolean;
}

export interface ContentWaits {
  begin(attempt: WaitingAttempt): ContentWait;
  /** Call this exactly once for each wait. If content has arrived, the duration also updates the model's usual wait. */
  end(wait: ContentWait, hasContent: boolean): void;
  countSlow(): ReadonlyMap<string, number>;
}

/**
 * The length of a tick. We count ticks of the event loop, because measured time would be wrong if the process was busy
 * or suspended or the clock has jumped.
 */
const defaultTickMs = 1_000;
const slowFactor = 4;
/**
 * A model's usual wait is never below this. Attempts count as slow after four times the usual wait, so they always have
 * at least ten ticks.
 */
const minUsualTicks = 2.5;
/** The usual wait until we've measured enough waits. It's generous because of reasoning models. */
const assumedTicks = 15;
const waitsToLearn = 20;
/**
 * Each longer wait raises the estimate by a fifth, and each shorter wait lowers it by a hundredth. This converges to a
 * value that one in twenty waits exceeds, and no single wait changes it by much.
 */
const raise = 1.2;
const lower = 0.99;
/** Callers choose the names of models, so the map needs a maximum size. */
const maxModels = 10_000;

/** Calls `onSlow` once for each slow attempt, while the attempt is still waiting. */
export function createContentWaits(onSlow: (wait: ContentWait) => void, tickMs = defaultTickMs): ContentWaits {
  const streams = createLruCache<UsualWait>(maxModels);
  const plain = createLruCache<UsualWait>(maxModels);
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
