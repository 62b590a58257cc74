/** Cancels a call when its deadline passes, or when a streaming caller disconnects. */
import { setTimeout as sleep } from 'node:timers/promises';
import { VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';

export interface CallCancellation {
  /**
   * Absent if nothing can cancel the call. That's the case for plain calls without a deadline. We read their response
   * to the end even if the caller leaves, because the vendor bills it anyway.
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Use this signal for all work before the request is sent to a vendor. Unlike `signal`, it also aborts when the
   * caller of a plain call disconnects, as long as content rules check the call (`isChecked`). It's absent if nothing
   * can abort it.
   */
  readonly unsentSignal: AbortSignal | undefined;
  cancelledBy(): 'deadline' | 'client' | null;
  /** Returns the time until the deadline, or null if there is none. */
  remainingMs(): number | null;
  /**
   * Stops the deadline. Call this when the chain has ended, because the deadline limits the attempts but not the
   * delivery of the response.
   */
  clearDeadline(): void;
  /**
   * Call when the caller's connection closes. Cancels streaming calls, as well as plain calls that haven't been sent
   * yet.
   */
  clientDisconnected(): void;
  /**
   * If the caller disconnects while `hasAllOutput` returns true, we delay the cancellation so that we can still read
   * the usage that the vendor reports at the end.
   */
  lingerWhile(hasAllOutput: () => boolean): void;
  /** Waits for `waitMs`. Throws VendorError `aborted` if the call is cancelled in the meantime. */
  pause(waitMs: number): Promise<void>;
}

/**
 * How long we keep reading a stream after the caller has disconnected. Vendors send the usage right after the last
 * output.
 */
export const lingerMs = 2_000;

/** For calls that nothing can cancel, i.e. plain calls without a deadline and without content rules. */
const uncancellable: CallCancellation = {
  signal: undefined,
  unsentSignal: undefined,
  cancelledBy: () => null,
  remainingMs: () => null,
  clearDeadline: () => undefined,
  clientDisconnected: () => undefined,
  lingerWhile: () => undefined,
  pause: (waitMs) => sleep(waitMs),
};

export function startCancellation({
  stream,
  deadlineAt,
  clock,
  isChecked = false,
}: {
  stream: boolean;
  deadlineAt: number | null;
  clock: Clock;
  /** Set if content rules have to check the call before it's sent. */
  isChecked?: boolean;
}): CallCancellation {
  const isCancellable = stream || deadlineAt !== null;
  if (!isCancellable && !isChecked) return uncancellable;
  const controller = new AbortController();
  const left = stream || !isChecked ? null : new AbortController();
  let cancelled: 'deadline' | 'client' | null = null;
  let lingers = (): boolean => false;
  let linger: NodeJS.Timeout | undefined;
  const passDeadline = (): void => {
    cancelled ??= 'deadline';
    controller.abort();
    left?.abort();
  };
  const timer = deadlineAt === null ? null : setTimeout(passDeadline, Math.max(0, deadlineAt - clock.now()));

  return {
    signal: isCancellable ? controller.signal : undefined,
    unsentSignal: (left ?? controller).signal,
    cancelledBy: () => cancelled,
    remainingMs: () => (deadlineAt === null ? null : deadlineAt - clock.now()),
    clearDeadline() {
      if (timer) clearTimeout(timer);
      clearTimeout(linger);
    },
    clientDisconnected() {
      left?.abort();
      if (!stream || cancelled !== null) return;
      cancelled = 'client';
      if (lingers()) linger = setTimeout(() => controller.abort(), lingerMs);
      else controller.abort();
    },
    lingerWhile(hasAllOutput) {
      lingers = hasAllOutput;
    },
    async pause(waitMs) {
      await sleep(waitMs, undefined, { signal: controller.signal }).catch(() => {
        throw new VendorError('aborted', 'the call was stopped while it waited for its next attempt');
      });
    },
  };
}
