/** Cancels a call early: when its deadline passes, or when a streaming caller disconnects. */
import { setTimeout as sleep } from 'node:timers/promises';
import { VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';

export interface CallCancellation {
  /** Absent when nothing can cancel the call: a plain call without a deadline is always read to its end, because the vendor bills it. */
  readonly signal: AbortSignal | undefined;
  cancelledBy(): 'deadline' | 'client' | null;
  /** Time until the deadline; null without one. */
  remainingMs(): number | null;
  /** Call when the chain has ended: the deadline limits the attempts, not the delivery of the response. */
  clearDeadline(): void;
  /** Call when the caller's connection closes. Cancels streaming calls only. */
  clientDisconnected(): void;
  /** Waits; throws VendorError `aborted` when the call is cancelled meanwhile. */
  pause(waitMs: number): Promise<void>;
}

/** Of a plain call without a deadline. */
const uncancellable: CallCancellation = {
  signal: undefined,
  cancelledBy: () => null,
  remainingMs: () => null,
  clearDeadline: () => undefined,
  clientDisconnected: () => undefined,
  pause: (waitMs) => sleep(waitMs),
};

export function startCancellation({
  stream,
  deadlineAt,
  clock,
}: {
  stream: boolean;
  deadlineAt: number | null;
  clock: Clock;
}): CallCancellation {
  if (!stream && deadlineAt === null) return uncancellable;
  const controller = new AbortController();
  let cancelled: 'deadline' | 'client' | null = null;
  const cancel = (by: 'deadline' | 'client'): void => {
    if (cancelled !== null) return;
    cancelled = by;
    controller.abort();
  };
  const timer = deadlineAt === null ? null : setTimeout(() => cancel('deadline'), Math.max(0, deadlineAt - clock.now()));

  return {
    signal: controller.signal,
    cancelledBy: () => cancelled,
    remainingMs: () => (deadlineAt === null ? null : deadlineAt - clock.now()),
    clearDeadline() {
      if (timer) clearTimeout(timer);
    },
    clientDisconnected() {
      if (stream) cancel('client');
    },
    async pause(waitMs) {
      await sleep(waitMs, undefined, { signal: controller.signal }).catch(() => {
        throw new VendorError('aborted', 'stopped while waiting');
      });
    },
  };
}
