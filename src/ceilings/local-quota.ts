/**
 * The part of one counter that this process may admit without asking the database. Plain arithmetic, without time or I/O.
 *
 *     leased = available + reserved (upper bounds of running calls) + pending (settled here, not yet counted in the database)
 *
 * None of the four is ever negative, so the leases of all processes plus the counted usage never exceed the ceiling.
 *
 * A class, because every call changes several of these: V8 takes objects that define getters for different types.
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

  /** Usage beyond the lease that the database has not counted yet: the next lease is reduced by it. */
  get overdraft(): number {
    return this.#overdraft;
  }

  /** What the database has debited from the lease in all, as far as this process knows. */
  get debited(): number {
    return this.#debited;
  }

  /** Nothing is reserved or pending for any call: the quota can be given up as a whole. */
  get isIdle(): boolean {
    return this.#reserved === 0 && this.#pending === 0 && this.#overdraft === 0;
  }

  /** Reserves `bound` of the available quota; false when it does not fit. */
  reserve(bound: number): boolean {
    if (bound > this.available) return false;
    this.#reserved += bound;
    return true;
  }

  /** Ends a reservation and debits what the call used from it and from the available quota. Returns the debit; the rest of `spent` is overdraft. */
  settle(bound: number, spent: number): number {
    this.#reserved -= bound;
    const amount = Math.min(spent, this.available);
    this.#pending += amount;
    this.#overdraft += spent - amount;
    return amount;
  }

  /** The database has counted a debit and its overdraft, and lowered the lease by `amount`. */
  commit(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#leased -= amount;
    this.#debited += amount;
    this.#overdraft -= overdraft;
  }

  /** The database will never count the debit: its amount is available again. */
  revert(amount: number, overdraft: number): void {
    this.#pending -= amount;
    this.#overdraft -= overdraft;
  }

  /** The database has enlarged the lease. */
  grant(amount: number): void {
    this.#leased += amount;
  }

  /** Removes the available quota, which the caller gives back to the database, and returns its amount. */
  takeAvailable(): number {
    const amount = this.available;
    this.#leased -= amount;
    return amount;
  }
}
