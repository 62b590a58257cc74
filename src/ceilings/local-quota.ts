/**
 * The part of one counter that this process may admit without asking the database. This is plain arithmetic without
 * time or I/O.
 *
 *     leased = available + reserved (upper bounds of running calls) + pending (settled here, not yet counted in the database)
 *
 * None of these four numbers is ever negative, so the leases of all processes plus the counted usage never exceed the
 * ceiling.
 *
 * We use a class because every call changes several of these, and V8 gives each object that defines getters its own
 * hidden class.
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

  /** Usage beyond the lease that the database hasn't counted yet. We subtract it from the next lease. */
  get overdraft(): number {
    return this.#overdraft;
  }

  /** The total that the database has debited from the lease, as far as this process knows. */
  get debited(): number {
    return this.#debited;
  }

  /** Reports whether nothing is reserved or pending for any call, so that we can give up the quota as a whole. */
  get isIdle(): boolean {
    return this.#reserved === 0 && this.#pending === 0 && this.#overdraft === 0;
  }

  /** Reserves `bound` of the available quota. Returns false if it doesn't fit. */
  reserve(bound: number): boolean {
    if (bound > this.available) return false;
    this.#reserved += bound;
    return true;
  }

  /**
   * Ends a reservation and debits what the call used from the reservation and from the available quota. Returns the
   * debit. The rest of `spent` becomes overdraft.
   */
  settle(bound: number, spent: number): number {
    this.#reserved -= bound;
    const amount = Math.min(spent, this.available);
    this.#pending += amount;
    this.#overdraft += spent - amount;
    return amount;
  }

  /** Called when the database has counted a debit and its overdraft, and has lowered the lease by `amount`. */
  commit(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#leased -= amount;
    this.#debited += amount;
    this.#overdraft -= overdraft;
  }

  /** Called if the database will never count the debit. Its amount becomes available again. */
  revert(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#overdraft -= overdraft;
  }

  grant(amount: number): void {
    this.#leased += amount;
  }

  /** Removes the available quota and returns its amount. The caller gives it back to the database. */
  takeAvailable(): number {
    const amount = this.available;
    this.#leased -= amount;
    return amount;
  }
}
