/** Stores a batch of settled calls in one transaction. */
import { applyCalls, tryApplyCalls } from '../ceilings/counter-updates.ts';
import type { SettledCall } from '../core/call.ts';
import type { Queries } from '../db/database.ts';
import type { KnownPrompts } from '../memory/conversations/known-prompts.ts';
import { createPromptReader } from '../memory/conversations/prompt-reader.ts';
import { recordCalls } from '../memory/conversations/record-calls.ts';
import { redactErased } from '../memory/erasure/tombstones.ts';
import type { CredentialMasker } from '../memory/text/credential-masker.ts';
import { correctCalls } from '../usage/correct-calls.ts';
import { storeCalls } from '../usage/store-calls.ts';
import { lockCorrections } from '../videos/videos.ts';

/** Returns a function that stores a batch atomically. Storing a call again has no effect. */
export function createStoreBatch(
  masker: CredentialMasker,
  knownPrompts: KnownPrompts,
): (tx: Queries, batch: readonly SettledCall[]) => Promise<void> {
  const reader = createPromptReader(masker, knownPrompts);
  return async (tx, batch) => {
    // Do this first, so that later steps don't see erased data. The caller holds a shared lock on the project, so no
    // erasure can run at the same time.
    const calls = await redactErased(tx, batch);
    const stored = await storeCalls(tx, calls);
    // Correct the cost of videos before we count it against ceilings.
    const videos = stored.flatMap(({ metadata }) => (metadata.route === 'video' ? [metadata.id] : []));
    await correctCalls(tx, await lockCorrections(tx, videos));
    await tx.query('savepoint before_conversations');
    await recordCalls(tx, stored, reader);
    // This comes last, because waiting calls lease quota from the counters that it locks.
    if (await tryApplyCalls(tx, stored)) return;
    // Somebody holds a counter, and may be waiting for the conversations lock that we hold. Processes of version 0.1 take
    // these locks in that order, and so do we if there are videos. So give the lock back, and take the counters first.
    await tx.query('rollback to savepoint before_conversations');
    await applyCalls(tx, stored);
    await recordCalls(tx, stored, reader);
  };
}
