/**
 * The part of one counter that this process may admit without asking the database. Plain arithmetic, without time or I/O.
 *
 *     leased = available + reserved (upper bounds of running calls) + pending (settled here, not yet counted in the database)
 *
 * None of the four is ever negative, so the leases of all processes plus the counted usage never exceed the ceiling.
 */

/** What a settled call has used: `amount` from the lease, `overdraft` beyond it. */
export interface Debit {
  readonly amount: number;
  readonly overdraft: number;
}

export interface LocalQuota {
  readonly leased: number;
  readonly reserved: number;
  readonly available: number;
  /** Usage beyond the lease that the database has not counted yet: the next lease is reduced by it. */
  readonly overdraft: number;
  /** Nothing is reserved or pending for any call: the quota can be given up as a whole. */
  readonly isIdle: boolean;
  /** Reserves `bound` of the available quota; false when it does not fit. */
  reserve(bound: number): boolean;
  /** Ends a reservation and debits what the call used from it and from the available quota; the remainder is overdraft. */
  settle(reserved: number, spent: number): Debit;
  /** The database has counted the debit, and lowered the lease by its amount. */
  commit(debit: Debit): void;
  /** The database will never count the debit: its amount is available again. */
  revert(debit: Debit): void;
  /** The database has enlarged the lease. */
  grant(amount: number): void;
  /** Removes the available quota, which the caller gives back to the database, and returns its amount. */
  takeAvailable(): number;
}

export function createLocalQuota(): LocalQuota {
  let leased = 0;
  let reserved = 0;
  let pending = 0;
  let overdraft = 0;
  const available = (): number => leased - reserved - pending;

  return {
    get leased() {
      return leased;
    },
    get reserved() {
      return reserved;
    },
    get available() {
      return available();
    },
    get overdraft() {
      return overdraft;
    },
    get isIdle() {
      return reserved === 0 && pending === 0 && overdraft === 0;
    },
    reserve(bound) {
      if (bound > available()) return false;
      reserved += bound;
      return true;
    },
    settle(bound, spent) {
      reserved -= bound;
      const amount = Math.min(spent, available());
      pending += amount;
      overdraft += spent - amount;
      return { amount, overdraft: spent - amount };
    },
    commit(debit) {
      pending -= debit.amount;
      leased -= debit.amount;
      overdraft -= debit.overdraft;
    },
    revert(debit) {
      pending -= debit.amount;
      overdraft -= debit.overdraft;
    },
    grant(amount) {
      leased += amount;
    },
    takeAvailable() {
      const amount = available();
      leased -= amount;
      return amount;
    },
  };
}
