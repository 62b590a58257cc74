/** The transaction that stores a batch of settled calls. */
import { applyCalls } from '../ceilings/counter-updates.ts';
import type { SettledCall } from '../core/call.ts';
import type { Queries } from '../db/database.ts';
import { recordCalls } from '../memory/conversations/record-calls.ts';
import { redactErased } from '../memory/erasure/tombstones.ts';
import type { CredentialMasker } from '../memory/text/credential-masker.ts';
import { storeCalls } from '../usage/store-calls.ts';
import { correctStoredCalls } from './videos.ts';

type StoreStep = (tx: Queries, calls: readonly SettledCall[]) => Promise<unknown>;

/** Returns the function that stores a batch in a transaction: all of it or nothing. Storing the same call again changes nothing. */
export function createStoreBatch(masker: CredentialMasker): (tx: Queries, batch: readonly SettledCall[]) => Promise<void> {
  /** What follows from newly stored calls, in this order. */
  const steps: readonly StoreStep[] = [
    // Before the ceilings, which must count the final cost of videos.
    correctStoredCalls,
    applyCalls,
    // Last: locks conversations, which other batches of the project wait for.
    (tx, calls) => recordCalls(tx, calls, masker),
  ];
  return async (tx, batch) => {
    // First, so that no later step sees erased data. The caller's shared project lock excludes concurrent erasures.
    const calls = await redactErased(tx, batch);
    const added = await storeCalls(tx, calls);
    const stored = calls.filter(({ facts }) => added.has(facts.id));
    for (const step of steps) await step(tx, stored);
  };
}
