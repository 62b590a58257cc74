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

export function createLocalQuota() {
  let leased = 0;
  let reserved = 0;
  let pending = 0;
  let overdraft = 0;
  let debited = 0;
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
    /** Usage beyond the lease that the database has not counted yet: the next lease is reduced by it. */
    get overdraft() {
      return overdraft;
    },
    /** What the database has debited from the lease in all, as far as this process knows. */
    get debited() {
      return debited;
    },
    /** Nothing is reserved or pending for any call: the quota can be given up as a whole. */
    get isIdle() {
      return reserved === 0 && pending === 0 && overdraft === 0;
    },
    /** Reserves `bound` of the available quota; false when it does not fit. */
    reserve(bound: number): boolean {
      if (bound > available()) return false;
      reserved += bound;
      return true;
    },
    /** Ends a reservation and debits what the call used from it and from the available quota; the remainder is overdraft. */
    settle(bound: number, spent: number): Debit {
      reserved -= bound;
      const amount = Math.min(spent, available());
      pending += amount;
      overdraft += spent - amount;
      return { amount, overdraft: spent - amount };
    },
    /** The database has counted the debit, and lowered the lease by its amount. */
    commit(debit: Debit): void {
      pending -= debit.amount;
      leased -= debit.amount;
      debited += debit.amount;
      overdraft -= debit.overdraft;
    },
    /** The database will never count the debit: its amount is available again. */
    revert(debit: Debit): void {
      pending -= debit.amount;
      overdraft -= debit.overdraft;
    },
    /** The database has enlarged the lease. */
    grant(amount: number): void {
      leased += amount;
    },
    /** Removes the available quota, which the caller gives back to the database, and returns its amount. */
    takeAvailable(): number {
      const amount = available();
      leased -= amount;
      return amount;
    },
  };
}
