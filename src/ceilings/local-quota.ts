/**
 * The slice of one counter that this process holds: what it may admit without asking anybody. Plain arithmetic, without time or I/O.
 *
 *     held = free + reserved (bounds of running calls) + pending (settled here, not yet counted in the database)
 *
 * None of the four is ever negative, so that what all processes hold together with what is counted never passes the ceiling.
 */
export interface Spending {
  readonly taken: number;
  readonly owed: number;
}

export interface Slice {
  readonly held: number;
  readonly reserved: number;
  readonly free: number;
  /** What calls spent beyond all that could be taken from the slice, and is not yet counted in the database: the next lease must leave room for it. */
  readonly owed: number;
  /** Nothing is held for any call: the slice can be given up whole. */
  readonly isIdle: boolean;
  /** Takes `bound` from what is free; false when it does not fit. */
  reserve(bound: number): boolean;
  /** A call ended: its reservation goes back, and what it spent is taken from it and from what is free. What the slice has not is owed. */
  settle(reserved: number, spent: number): Spending;
  /** What a settled call spent is now counted in the database, which lowered the lease by what was taken. */
  counted(spending: Spending): void;
  /** What a settled call spent will never be counted: what it took is free again. */
  uncounted(spending: Spending): void;
  /** The database has raised the lease. */
  grant(amount: number): void;
  /** Takes all that is free out of the slice, to be given back. */
  takeFree(): number;
}

export function createSlice(): Slice {
  let held = 0;
  let reserved = 0;
  let pending = 0;
  let owed = 0;
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
    get owed() {
      return owed;
    },
    get isIdle() {
      return reserved === 0 && pending === 0 && owed === 0;
    },
    reserve(bound) {
      if (bound > free()) return false;
      reserved += bound;
      return true;
    },
    settle(amount, spent) {
      reserved -= amount;
      const taken = Math.min(spent, free());
      pending += taken;
      owed += spent - taken;
      return { taken, owed: spent - taken };
    },
    counted(spending) {
      pending -= spending.taken;
      held -= spending.taken;
      owed -= spending.owed;
    },
    uncounted(spending) {
      pending -= spending.taken;
      owed -= spending.owed;
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
