/**
 * Invariants that always have to be true. They are checked after every step of a simulation, by tests that kill
 * processes, by random runs on the databases, and by the soak test. Each function throws if its invariant is violated.
 */

import type { JournalState } from '../../src/journal/journal.ts';

/** A counter as the database stores it. */
export interface StoredCounter {
  readonly name: string;
  readonly settled: number;
  readonly leased: number;
  /** The amounts of its leases. */
  readonly leases: readonly number[];
  /** Usage of the stored calls of its window. */
  readonly usage: number;
}

/** The usage and reservations of all processes, as an omniscient observer would see them. */
export interface CeilingUse {
  readonly name: string;
  readonly limit: number;
  /** Usage of ended calls, whether they are stored or not. */
  readonly settled: number;
  /** Reservations of running calls. */
  readonly reserved: number;
  /** By how much the ceiling may be exceeded. This includes the usage of calls that ran without a reservation. */
  readonly excess: number;
}

export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** Settled and granted usage may exceed the ceiling only by what the documentation allows. */
export function grantedIsWithinLimit({ name, settled, leased }: StoredCounter, limit: number, excess = 0): void {
  require(settled + leased <= limit + excess, `${name}: ${settled} settled + ${leased} granted > ${limit} + ${excess}`);
}

/**
 * A grant never exceeds what is left of the ceiling, whatever calls have used beyond their reservations. Check a
 * counter directly after a grant.
 */
export function grantIsWithinLimit({ name, settled, leased }: Pick<StoredCounter, 'name' | 'settled' | 'leased'>, limit: number): void {
  require(settled + leased <= limit, `${name}: granted although ${settled} settled + ${leased} granted > ${limit}`);
}

/** The `leased` column of a counter is the sum of its leases. Grants are added to it and returns are subtracted. */
export function outstandingIsGrantedMinusReturned({ name, leased, leases }: StoredCounter): void {
  const outstanding = leases.reduce((sum, amount) => sum + amount, 0);
  require(leased === outstanding, `${name}: granted - returned = ${leased}, but ${outstanding} outstanding`);
  require(leases.every((amount) => amount >= 0), `${name}: more was returned than granted: ${leases.join(', ')}`);
}

/** Settled and reserved usage may exceed the ceiling only by what the documentation allows. */
export function useIsWithinCeiling({ name, limit, settled, reserved, excess }: CeilingUse): void {
  require(settled + reserved <= limit + excess, `${name}: ${settled} settled + ${reserved} reserved > ${limit} + ${excess}`);
}

/** No reservation ends twice. */
export function reservationsAreNotNegative({ name, reserved }: Pick<CeilingUse, 'name' | 'reserved'>): void {
  require(reserved >= 0, `${name}: ${reserved} reserved`);
}

/** The `settled` column of a counter is the usage of the stored calls, so every call is counted exactly once. */
export function eachCallIsCountedOnce({ name, settled, usage }: Pick<StoredCounter, 'name' | 'settled' | 'usage'>): void {
  require(settled === usage, `${name}: ${settled} settled, but the calls used ${usage}`);
}

/** Budget is never stranded, i.e. a call that fits was admitted within the allowed attempts. */
export function fittingCallIsAdmitted(isAdmitted: boolean, what: string): void {
  require(isAdmitted, `stranded: ${what}`);
}

/** Each of these calls is stored exactly once. */
export function eachCallIsStoredOnce(expected: Iterable<string>, stored: readonly string[]): void {
  const once = new Set(stored);
  require(once.size === stored.length, `stored twice: ${stored.filter((id, index) => stored.indexOf(id) !== index).join(', ')}`);
  const lost = [...expected].filter((id) => !once.has(id));
  require(lost.length === 0, `lost: ${lost.join(', ')}`);
}

/** A call that the journal confirmed as settled is not stored as one that was interrupted. */
export function settledCallsAreUnchanged(
  settled: readonly string[],
  stored: ReadonlyMap<string, { readonly result: { readonly outcome: string } }>,
): void {
  const changed = settled.filter((id) => stored.has(id) && stored.get(id)?.result.outcome === 'unknown');
  require(changed.length === 0, `settled, but stored as unknown: ${changed.join(', ')}`);
}

/** Each stored call is reported to the ceilings once. */
export function eachCallIsReportedOnce(reported: readonly string[]): void {
  const twice = reported.filter((id, index) => reported.indexOf(id) !== index);
  require(twice.length === 0, `reported as stored twice: ${twice.join(', ')}`);
}

/** Each call whose text the database rejects has a file in the quarantine. */
export function rejectedRecordsAreKept(rejected: readonly string[], files: readonly string[]): void {
  const lost = rejected.filter((id) => !files.some((file) => file.endsWith(`/quarantine/${id}.record`)));
  require(lost.length === 0, `rejected and not in the quarantine: ${lost.join(', ')}`);
}

/** A journal keeps no call and no text once its calls have ended, and accepts new ones. */
export function journalIsEmpty(state: JournalState): void {
  const { openCalls, parkedCalls, bytes, accepting } = state;
  require(openCalls === 0 && parkedCalls === 0 && bytes === 0 && accepting, `not drained: ${JSON.stringify(state)}`);
}

/** Calls are stored in the order in which the journal confirmed them. */
export function orderIsKept(confirmed: readonly string[], stored: readonly string[]): void {
  const position = new Map(stored.map((id, index) => [id, index]));
  const positions = confirmed.flatMap((id) => position.get(id) ?? []);
  const late = positions.findIndex((at, index) => index > 0 && at < (positions[index - 1] ?? 0));
  require(late < 0, `stored out of order: ${confirmed[late]}`);
}

function require(holds: boolean, violation: string): void {
  if (!holds) throw new InvariantError(violation);
}
