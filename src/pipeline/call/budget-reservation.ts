/**
 * A call's own part of its ceilings, held while the gateway asks models on the call's behalf: which tier it is for, what is remembered. These
 * questions are paid by the same key; what its ceilings leave last is not spent on the questions of a call that is then refused.
 */
import type { Reservation } from '../../ceilings/reservation.ts';
import type { Call, Candidate } from '../../core/call.ts';
import { usageBounds } from './usage-bounds.ts';

export interface BudgetReservation {
  /** Before a question. False: there is no room for the call itself, which will be refused unless an answer is kept for it. */
  reserveEarly(call: Call, candidates: readonly Candidate[]): Promise<boolean>;
  /** What is held is enough for the call as it has become, or nothing is held. */
  tryExtend(prepared: Call, candidates: readonly Candidate[]): Promise<boolean>;
  /** What the call is made with; it is the caller's to give back from now on. Throws what refuses it. A promise only where something waits. */
  admit(prepared: Call, candidates: readonly Candidate[]): Reservation | Promise<Reservation>;
  /** The call is not made; nothing happens where it was. */
  release(): void;
}

/** `admit` asks for all of a call's part. */
export function createBudgetReservation(admit: BudgetReservation['admit']): BudgetReservation {
  // The promise itself is kept: who asked may not have waited for it (the time of a question was over).
  let pending: Promise<Reservation | null> | null = null;

  const tryAdmit = async (call: Call, candidates: readonly Candidate[]): Promise<Reservation | null> => {
    try {
      return await admit(call, candidates);
    } catch {
      return null; // Whoever makes the call is told why.
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
    if (reservation !== null && (await reservation.extend(() => usageBounds(prepared, candidates)))) return reservation;
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
      return reservation === null || (await reservation.extend(() => usageBounds(prepared, candidates)));
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
