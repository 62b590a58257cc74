/**
 * A call's own part of its ceilings, held while the gateway asks models on the call's behalf: which tier it is for, what is remembered. These
 * questions are paid by the same key; what its ceilings leave last is not spent on the questions of a call that is then refused.
 */
import type { Holds } from '../../ceilings/reservation.ts';
import type { Call, Candidate } from '../../core/call.ts';
import { boundsOf } from './usage-bounds.ts';

export interface OwnPart {
  /** Before a question. False: there is no room for the call itself, which will be refused unless an answer is kept for it. */
  hold(call: Call, candidates: readonly Candidate[]): Promise<boolean>;
  /** What is held is enough for the call as it has become, or nothing is held. */
  fits(toSend: Call, candidates: readonly Candidate[]): Promise<boolean>;
  /** What the call is made with; it is the caller's to give back from now on. Throws what refuses it. A promise only where something waits. */
  admit(toSend: Call, candidates: readonly Candidate[]): Holds | Promise<Holds>;
  /** The call is not made; nothing happens where it was. */
  release(): void;
}

/** `admit` asks for all of a call's part. */
export function createOwnPart(admit: OwnPart['admit']): OwnPart {
  // The promise itself is kept: who asked may not have waited for it (the time of a question was over).
  let holding: Promise<Holds | null> | null = null;

  const tryHold = async (call: Call, candidates: readonly Candidate[]): Promise<Holds | null> => {
    try {
      return await admit(call, candidates);
    } catch {
      return null; // Whoever makes the call is told why.
    }
  };

  const release = (): void => {
    void holding?.then((held) => held?.release());
    holding = null;
  };

  const admitHeld = async (holds: Promise<Holds | null>, toSend: Call, candidates: readonly Candidate[]): Promise<Holds> => {
    const held = await holds;
    if (held !== null && (await held.grow(() => boundsOf(toSend, candidates)))) return held;
    held?.release();
    return admit(toSend, candidates);
  };

  return {
    async hold(call, candidates) {
      holding ??= tryHold(call, candidates);
      return (await holding) !== null;
    },
    async fits(toSend, candidates) {
      const held = await holding;
      return held === null || (await held.grow(() => boundsOf(toSend, candidates)));
    },
    admit(toSend, candidates) {
      if (holding === null) return admit(toSend, candidates);
      const held = holding;
      holding = null;
      return admitHeld(held, toSend, candidates);
    },
    release,
  };
}
