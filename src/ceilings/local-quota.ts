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
   * Usage that the lease didn't cover and that the database doesn't know about yet. When we acquire the next lease, we
   * deduct it from the limit.
   */
  get overdraft(): number {
    return this.#overdraft;
  }

  /** How much has been debited from the lease in the database, as far as we know. */
  get debited(): number {
    return this.#debited;
  }

  /**
   * True if there's no reason to keep the quota, because nothing is reserved and all usage is counted in the database.
   */
  get isIdle(): boolean {
    return this.#reserved === 0 && this.#pending === 0 && this.#overdraft === 0;
  }

  /** Reserves `bound`. Returns false if there isn't that much available. */
  reserve(bound: number): boolean {
    if (bound > this.available) return false;
    this.#reserved += bound;
    return true;
  }

  /**
   * Ends a reservation and debits what the call has used, first from its own reservation and then from the available
   * quota. If that's not enough, the rest becomes overdraft. Returns how much was debited.
   */
  settle(bound: number, spent: number): number {
    this.#reserved -= bound;
    const amount = Math.min(spent, this.available);
    this.#pending += amount;
    this.#overdraft += spent - amount;
    return amount;
  }

  /** Call this when the database has counted a debit and its overdraft, and has reduced the lease by `amount`. */
  commit(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#leased -= amount;
    this.#debited += amount;
    this.#overdraft -= overdraft;
  }

  /** Undoes a debit that the database is never going to count, which makes the amount available again. */
  revert(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#overdraft -= overdraft;
  }

  grant(amount: number): void {
    this.#leased += amount;
  }

  /** Takes all available quota, so that the caller can return it to the database. Returns the amount. */
  takeAvailable(): number {
    const amount = this.available;
    this.#leased -= amount;
    return amount;
  }
}
