/** Stores a batch of settled calls in one transaction. */
import { applyCalls, tryApplyCalls } from '../ceilings/counter-updates.ts';
import type { SettledCall } from '../core/call.ts';
import type { Queries } from '../db/database.ts';
import type { KnownPrompts } from '../memory/conversations/known-prompts.ts';
import { hasText } from '../memory/conversations/masked-prompt.ts';
import { createPromptReader, type PromptReader } from '../memory/conversations/prompt-reader.ts';
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
    await recordAndCount(tx, stored, reader);
  };
}

/** How often we try to get all counters while holding the conversations lock. */
const maxAttempts = 3;

/**
 * Counts the calls last, because waiting calls lease quota from the counters that this locks.
 *
 * While we hold the conversations lock, we don't wait for a counter, because whoever has it may be waiting for
 * conversations, as processes of version 0.1 do. Instead, we give the lock back and wait without it. Then we start over
 * and let go of the counters, because the next batch would otherwise find them locked and have to start over, too. Only
 * the last attempt keeps them.
 */
async function recordAndCount(tx: Queries, calls: readonly SettledCall[], reader: PromptReader): Promise<void> {
  if (!calls.some(hasText)) {
    await applyCalls(tx, calls);
    return;
  }
  await tx.query('savepoint before_conversations');
  for (let attempt = 1; attempt <= maxAttempts; attempt += 1) {
    await recordCalls(tx, calls, reader);
    if (await tryApplyCalls(tx, calls)) return;
    await tx.query('rollback to savepoint before_conversations');
    await applyCalls(tx, calls);
    if (attempt < maxAttempts) await tx.query('rollback to savepoint before_conversations');
  }
  await recordCalls(tx, calls, reader);
}
