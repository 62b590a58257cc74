/**
 * Reserves the budget of a call before we make internal model calls for it, e.g. to choose a tier or for recall.
 * Internal calls are charged to the same key, and without the reservation they could use up its ceilings.
 */
import type { Reservation, UsageBounds } from '../../ceilings/reservation.ts';
import type { Call } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';

export interface BudgetReservation {
  /**
   * Reserves the budget before an internal model call. Returns false if the caller's call wouldn't be admitted. We
   * don't reject it at this point, because it might still be served from the cache.
   */
  reserveEarly(call: Call, candidates: readonly Candidate[]): Promise<boolean>;
  /**
   * Increases the reservation to what the call needs after it was prepared, and returns false if that fails. If nothing
   * has been reserved, it does nothing and returns true.
   */
  tryExtend(prepared: Call, candidates: readonly Candidate[]): Promise<boolean>;
  /**
   * Returns the call's reservation, which you have to settle or release. If a ceiling is exceeded, throws the error
   * code of this ceiling.
   */
  admit(prepared: Call, candidates: readonly Candidate[]): Promise<Reservation>;
  /** Releases the early reservation if the call isn't made. Has no effect after `admit`. */
  release(): void;
}

/** `admit` reserves the whole budget of a call, and `boundsOf` computes how large this budget is. */
export function createBudgetReservation(
  admit: BudgetReservation['admit'],
  boundsOf: (call: Call, candidates: readonly Candidate[]) => UsageBounds,
): BudgetReservation {
  // We keep a promise rather than the reservation, because admission may still be pending when an internal call times
  // out.
  let pending: Promise<Reservation | null> | null = null;

  const tryAdmit = async (call: Call, candidates: readonly Candidate[]): Promise<Reservation | null> => {
    try {
      return await admit(call, candidates);
    } catch {
      return null; // `admit` throws the same error again once the call is made.
    }
  };

  const release = (): void => {
    void pending?.then((reservation) => reservation?.release());
    pending = null;
  };

  const admitReserved = async (
    pendingReservation: Promise<Reservation | null>,
    prepared: Call,
    candidates: readonly Candidate[],
  ): Promise<Reservation> => {
    const reservation = await pendingReservation;
    if (reservation !== null && (await reservation.extend(() => boundsOf(prepared, candidates)))) return reservation;
    reservation?.release();
    return admit(prepared, candidates);
  };

  return {
    async reserveEarly(call, candidates) {
      pending ??= tryAdmit(call, candidates);
      return (await pending) !== null;
    },
    async tryExtend(prepared, candidates) {
      const reservation = await pending;
      return reservation === null || (await reservation.extend(() => boundsOf(prepared, candidates)));
    },
    admit(prepared, candidates) {
      if (pending === null) return admit(prepared, candidates);
      const reservation = pending;
      pending = null;
      return admitReserved(reservation, prepared, candidates);
    },
    release,
  };
}
