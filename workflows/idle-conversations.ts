/**
 * One run per project at a time, while it has open conversations: waits until some have been idle for the idle time, then reads them.
 *
 * A run per conversation would be the most frequent workflow by far, and the Temporal server limits its rate: 6,000 conversations that end at
 * the same time would delay everything else in the queue. No signal is sent per call either. The run starts with a delay of the idle time,
 * and each check says how long to wait for the next conversations. A check is a local activity of a few seconds at most, so a run for a
 * single conversation takes one workflow task and six events, and a long one lets other projects have their turn in between.
 */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { Activities, IdleConversationsInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil } from './poll-until.ts';
import { recoveringLocally } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const { readIdleConversations } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '1 minute',
  // Only the database can fail here, and it recovers: unlimited attempts.
  retry: recoveringLocally,
  // Longer retry delays become timers of the server and occupy no worker.
  localRetryThreshold: '5 seconds',
  summary: note('readIdle'),
});

export interface IdleConversationsResult {
  readonly outcome: 'done' | 'superseded';
  /** Conversations that this run has read. */
  readonly read: number;
}

export async function idleConversations(input: IdleConversationsInput): Promise<IdleConversationsResult> {
  const show = createRunStatus({ state: 'waiting' });
  let read = 0;
  const { kind: outcome } = await pollUntil(
    async () => {
      const result = await readIdleConversations(input);
      read += result.read;
      return result;
    },
    ({ waiting = 0 }, nextAt) => {
      const next = formatClockTime(nextAt);
      const lines = [note('conversationsWait', waiting, next), note('conversationsRead', read), note('nextByItself')];
      show({ state: 'waiting', waiting, read, next_at: nextAt.toISOString() }, lines);
      return note('nextIdleCheck', waiting, next);
    },
    () => continueAsNew<typeof idleConversations>(input),
  );
  const end = note(outcome === 'done' ? 'noConversationsWait' : 'conversationsSuperseded');
  show({ state: 'done', outcome, read }, [end, note('conversationsRead', read), note('nextNothing')]);
  return { outcome, read };
}
