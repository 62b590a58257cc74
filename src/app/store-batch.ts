/** Stores a batch of settled calls in one transaction. */
import { applyCalls, tryApplyCalls, waitForCounters } from '../ceilings/counter-updates.ts';
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

/**
 * Returns a function that stores a batch of calls in the caller's transaction. It's idempotent, so a batch can be
 * stored again after a crash.
 */
export function createStoreBatch(
  masker: CredentialMasker,
  knownPrompts: KnownPrompts,
): (tx: Queries, batch: readonly SettledCall[]) => Promise<void> {
  const reader = createPromptReader(masker, knownPrompts);
  return async (tx, batch) => {
    // Redact first, so that the following steps don't see erased data. The caller holds a shared lock on the project,
    // so no erasure can begin until we're done.
    const calls = await redactErased(tx, batch);
    const stored = await storeCalls(tx, calls);
    // If a video of the batch has already been settled, correct the cost of its call before it's counted against
    // ceilings.
    const videos = stored.flatMap(({ metadata }) => (metadata.route === 'video' ? [metadata.id] : []));
    await correctCalls(tx, await lockCorrections(tx, videos));
    await recordAndCount(tx, stored, reader);
  };
}

/**
 * After this many failed attempts to lock all counters while we hold the conversations lock, we lock the counters
 * first.
 */
const maxAttempts = 3;

/**
 * Counts the calls at the end, because that locks the counters until the commit, and other calls are waiting to lease
 * quota from them.
 *
 * While we hold the conversations lock, we don't wait for a counter, because that could be a deadlock: whoever has
 * locked the counter may be waiting for conversations, as processes of version 0.1 do. So if a counter is taken, we
 * release the conversations lock, wait for the counters, and start over. We release the counters before that, because
 * otherwise the next batch would find them locked and have to start over as well. Only the last attempt keeps them.
 */
async function recordAndCount(tx: Queries, calls: readonly SettledCall[], reader: PromptReader): Promise<void> {
  if (!calls.some(hasText)) {
    await applyCalls(tx, calls);
    return;
  }
  await tx.query('savepoint before_conversations');
  for (let attempt = 1; ; attempt += 1) {
    await recordCalls(tx, calls, reader);
    if (await tryApplyCalls(tx, calls)) return;
    await tx.query('rollback to savepoint before_conversations');
    await waitForCounters(tx, calls);
    if (attempt === maxAttempts) break;
    await tx.query('rollback to savepoint before_conversations');
  }
  await recordCalls(tx, calls, reader);
  await applyCalls(tx, calls);
}
