/** When a call must stop before it is done: its deadline passes, or a streaming caller leaves. */
import { VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';

export interface CallCancellation {
  /** Absent where nothing can stop the call: a plain call without deadline is always read to its end, since the vendor bills it (lessons 13). */
  readonly signal: AbortSignal | undefined;
  cancelledBy(): 'deadline' | 'client' | null;
  /** What the deadline leaves, null without one. */
  remainingMs(): number | null;
  /** The chain is over, or the first piece of its answer is there: from now on the deadline does not count (shapes 21). */
  clearDeadline(): void;
  /** The caller's connection closed. */
  clientDisconnected(): void;
  /** Pauses; throws VendorError `aborted` when the call is stopped meanwhile. */
  pause(waitMs: number): Promise<void>;
}

export function startCancellation({
  stream,
  deadlineAt,
  clock,
}: {
  stream: boolean;
  deadlineAt: number | null;
  clock: Clock;
}): CallCancellation {
  const controller = stream || deadlineAt !== null ? new AbortController() : null;
  let cancelled: 'deadline' | 'client' | null = null;
  const cancel = (by: 'deadline' | 'client'): void => {
    if (cancelled !== null) return;
    cancelled = by;
    controller?.abort();
  };
  const timer = deadlineAt === null ? null : setTimeout(() => cancel('deadline'), Math.max(0, deadlineAt - clock.now()));

  return {
    signal: controller?.signal,
    cancelledBy: () => cancelled,
    remainingMs: () => (deadlineAt === null ? null : deadlineAt - clock.now()),
    clearDeadline() {
      if (timer) clearTimeout(timer);
    },
    clientDisconnected() {
      if (stream) cancel('client');
    },
    pause: (waitMs) =>
      new Promise((resolve, reject) => {
        const onAbort = (): void => {
          clearTimeout(pauseTimer);
          reject(new VendorError('aborted', 'stopped while waiting'));
        };
        const pauseTimer = setTimeout(() => {
          controller?.signal.removeEventListener('abort', onAbort);
          resolve();
        }, waitMs);
        if (controller?.signal.aborted) onAbort();
        else controller?.signal.addEventListener('abort', onAbort, { once: true });
      }),
  };
}
