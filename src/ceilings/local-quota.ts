/**
 * How much of one counter this process can admit without asking the database. This is plain arithmetic, without clocks
 * or I/O.
 *
 * leased = available + reserved (upper bounds of running calls) + pending (settled here, but not yet counted in the
 * database)
 *
 * None of these four is ever negative. Therefore, the leases of all processes plus the counted usage never exceed the
 * ceiling.
 *
 * This is a class because every call updates these values, and V8 creates a separate hidden class for each object
 * literal with getters.
 */
export class LocalQuota {
  #leased = 0;
  #reserved = 0;
  #pending = 0;
  #overdraft = 0;
  #debited = 0;

  get leased(): number {
    return this.#leased;
  }

  get reserved(): number {
    return this.#reserved;
  }

  get available(): number {
    return this.#leased - this.#reserved - this.#pending;
  }

  /**
   * Usage that no lease has covered and the database doesn't know about yet. We deduct it from the limit when we
   * acquire the next lease.
   */
  get overdraft(): number {
    return this.#overdraft;
  }

  /** The amount that the database has debited from the lease so far, as far as this process knows. */
  get debited(): number {
    return this.#debited;
  }

  /** True if nothing is reserved and the database has counted all usage, so there's no reason to keep the quota. */
  get isIdle(): boolean {
    return this.#reserved === 0 && this.#pending === 0 && this.#overdraft === 0;
  }

  /** Returns false if the local quota isn't large enough. */
  reserve(bound: number): boolean {
    if (bound > this.available) return false;
    this.#reserved += bound;
    return true;
  }

  /**
   * Ends a reservation and debits the actual usage, first from the reservation and then from the available quota.
   * Anything beyond that becomes overdraft. Returns the debit.
   */
  settle(bound: number, spent: number): number {
    this.#reserved -= bound;
    const amount = Math.min(spent, this.available);
    this.#pending += amount;
    this.#overdraft += spent - amount;
    return amount;
  }

  /** Call this once the database has counted a debit and its overdraft, which reduces the lease by `amount`. */
  commit(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#leased -= amount;
    this.#debited += amount;
    this.#overdraft -= overdraft;
  }

  /** Undoes the debit of a call that the database is never going to count. */
  revert(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#overdraft -= overdraft;
  }

  grant(amount: number): void {
    this.#leased += amount;
  }

  /** Takes all available quota and returns the amount, so that it can be returned to the database. */
  takeAvailable(): number {
    const amount = this.available;
    this.#leased -= amount;
    return amount;
  }
}
