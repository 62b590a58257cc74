/**
 * The slice of one counter that this process holds: what it may admit without asking anybody. Plain arithmetic, without time or I/O.
 *
 *     held = free + reserved (bounds of running calls) + pending (settled here, not yet counted in the database)
 *
 * None of the four is ever negative, so that what all processes hold together with what is counted never passes the ceiling.
 */
export interface Slice {
  readonly held: number;
  readonly reserved: number;
  readonly free: number;
  /** Nothing is held for any call: the slice can be given up whole. */
  readonly isIdle: boolean;
  /** Takes `bound` from what is free; false when it does not fit. */
  reserve(bound: number): boolean;
  /**
   * A call ended: its reservation goes back, and what it spent is taken from it and from what is free. Returns what was taken: less than
   * `spent` when the slice holds no more, and then the rest only shows when the call is counted.
   */
  settle(reserved: number, spent: number): number;
  /** What a settled call took is now counted in the database, which lowered the lease by as much. */
  counted(consumed: number): void;
  /** What a settled call took will never be counted: it is free again. */
  uncounted(consumed: number): void;
  /** The database has raised the lease. */
  grant(amount: number): void;
  /** Takes all that is free out of the slice, to be given back. */
  takeFree(): number;
}

export function createSlice(): Slice {
  let held = 0;
  let reserved = 0;
  let pending = 0;
  const free = (): number => held - reserved - pending;

  return {
    get held() {
      return held;
    },
    get reserved() {
      return reserved;
    },
    get free() {
      return free();
    },
    get isIdle() {
      return reserved === 0 && pending === 0;
    },
    reserve(bound) {
      if (bound > free()) return false;
      reserved += bound;
      return true;
    },
    settle(amount, spent) {
      reserved -= amount;
      const consumed = Math.min(spent, free());
      pending += consumed;
      return consumed;
    },
    counted(consumed) {
      pending -= consumed;
      held -= consumed;
    },
    uncounted(consumed) {
      pending -= consumed;
    },
    grant(amount) {
      held += amount;
    },
    takeFree() {
      const amount = free();
      held -= amount;
      return amount;
    },
  };
}
