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
   * Enlarges the reservation to what the prepared call needs, and returns false if that fails. Returns true if there's
   * no reservation.
   */
  tryExtend(prepared: Call, candidates: readonly Candidate[]): Promise<boolean>;
  /**
   * Returns the call's reservation, which you have to settle or release. If a ceiling is exceeded, throws the error
   * code of this ceiling.
   */
  admit(prepared: Call, candidates: readonly Candidate[]): Promise<Reservation>;
  /** Releases the early reservation of a call that never reaches `admit`. After `admit`, this has no effect. */
  release(): void;
}

/**
 * Creates the budget reservation for a call. `admit` checks the ceilings and reserves the budget, and `boundsOf`
 * computes how much the call needs.
 */
export function createBudgetReservation(
  admit: BudgetReservation['admit'],
  boundsOf: (call: Call, candidates: readonly Candidate[]) => UsageBounds,
): BudgetReservation {
  // Keep the promise instead of the reservation itself. If an internal call times out, its reservation may still be
  // pending when we have to release it.
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
