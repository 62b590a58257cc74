/**
 * The slice of one counter that this process holds: what it may admit without asking anybody. Plain arithmetic, without time or I/O.
 *
 *     held = free + reserved (bounds of running calls) + pending (settled here, not yet counted in the database)
 *
 * None of the four is ever negative, so that what all processes hold together with what is counted never passes the ceiling.
 */
export interface Debit {
  readonly amount: number;
  readonly overdraft: number;
}

export interface LocalQuota {
  readonly leased: number;
  readonly reserved: number;
  readonly available: number;
  /** What calls spent beyond all that could be taken from the slice, and is not yet counted in the database: the next lease must leave room for it. */
  readonly overdraft: number;
  /** Nothing is held for any call: the slice can be given up whole. */
  readonly isIdle: boolean;
  /** Takes `bound` from what is free; false when it does not fit. */
  reserve(bound: number): boolean;
  /** A call ended: its reservation goes back, and what it spent is taken from it and from what is free. What the slice has not is owed. */
  settle(reserved: number, spent: number): Debit;
  /** What a settled call spent is now counted in the database, which lowered the lease by what was taken. */
  commit(spending: Debit): void;
  /** What a settled call spent will never be counted: what it took is free again. */
  revert(spending: Debit): void;
  /** The database has raised the lease. */
  grant(amount: number): void;
  /** Takes all that is free out of the slice, to be given back. */
  takeAvailable(): number;
}

export function createLocalQuota(): LocalQuota {
  let held = 0;
  let reserved = 0;
  let pending = 0;
  let owed = 0;
  const free = (): number => held - reserved - pending;

  return {
    get leased() {
      return held;
    },
    get reserved() {
      return reserved;
    },
    get available() {
      return free();
    },
    get overdraft() {
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
      return { amount: taken, overdraft: spent - taken };
    },
    commit(spending) {
      pending -= spending.amount;
      held -= spending.amount;
      owed -= spending.overdraft;
    },
    revert(spending) {
      pending -= spending.amount;
      owed -= spending.overdraft;
    },
    grant(amount) {
      held += amount;
    },
    takeAvailable() {
      const amount = free();
      held -= amount;
      return amount;
    },
  };
}
