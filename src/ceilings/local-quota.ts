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
   * Usage beyond the lease that the database doesn't know about yet. It's deducted from the limit when we acquire the
   * next lease.
   */
  get overdraft(): number {
    return this.#overdraft;
  }

  /** The total that was debited from the lease in the database, as far as we know. */
  get debited(): number {
    return this.#debited;
  }

  /** True if the quota can be dropped: nothing is reserved, and all usage is counted in the database. */
  get isIdle(): boolean {
    return this.#reserved === 0 && this.#pending === 0 && this.#overdraft === 0;
  }

  /** Takes `bound` out of the available quota. Returns false if that's more than there is. */
  reserve(bound: number): boolean {
    if (bound > this.available) return false;
    this.#reserved += bound;
    return true;
  }

  /**
   * Ends a reservation. What the call has used is debited from its reservation, and then from the available quota. If
   * that isn't enough, the rest becomes overdraft. Returns the debited amount.
   */
  settle(bound: number, spent: number): number {
    this.#reserved -= bound;
    const amount = Math.min(spent, this.available);
    this.#pending += amount;
    this.#overdraft += spent - amount;
    return amount;
  }

  /**
   * Call this after the database has counted a debit with its overdraft. The database has also reduced the lease by
   * `amount`.
   */
  commit(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#leased -= amount;
    this.#debited += amount;
    this.#overdraft -= overdraft;
  }

  /** Takes back a debit that the database will never count. The amount becomes available again. */
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
