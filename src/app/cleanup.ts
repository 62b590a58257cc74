/** The steps of the daily cleanup, in their order: what must not be kept first, what only makes things faster last. */
import type { CleanupStep } from '../../activities/cleanup.ts';
import { deleteOldCounters } from '../ceilings/expired-counters.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { deleteHopelessRows } from '../jobs/outbox/outbox-rows.ts';
import { createExpiry } from '../memory/erasure/retention.ts';
import { indexAgain } from '../memory/indexing/reindex.ts';
import { buildVectorIndex } from '../memory/indexing/vector-indexes.ts';
import { countAllWords } from '../memory/indexing/word-statistics.ts';
import { deleteSettledVideos } from '../videos/delete-expired.ts';

export function createCleanupSteps({ database, clock }: { readonly database: Database; readonly clock: Clock }): readonly CleanupStep[] {
  const expiry = createExpiry({ database, clock });
  return [
    { name: 'conversations', run: expiry.conversations },
    { name: 'loose-prompts', run: expiry.loosePrompts },
    { name: 'closed-memories', run: expiry.closedItems },
    { name: 'batches', run: expiry.batches },
    { name: 'videos', run: () => deleteSettledVideos(database, clock) },
    { name: 'counters', run: () => deleteOldCounters(database, clock) },
    { name: 'outbox', run: () => deleteHopelessRows(database) },
    { name: 'old-words', run: () => indexAgain(database) },
    { name: 'words', run: (signal) => countAllWords(database, clock, signal) },
    { name: 'vector-indexes', run: (signal) => buildVectorIndex(database, signal) },
  ];
}
