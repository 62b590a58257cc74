/**
 * Waits until conversations of a project have been idle long enough, and then closes them. Each project has at most one
 * run at a time, as long as it has open conversations.
 *
 * If each conversation had its own run, this would be by far the most frequent workflow, and the rate of the Temporal
 * server is limited. If 6,000 conversations ended at the same time, everything else in the queue would be delayed. We
 * don't send a signal per call either. Instead, the run starts after a delay of the idle time, and each check returns
 * how long to wait for the next conversations. A check is a local activity of at most a few seconds, so a run for a
 * single conversation takes one workflow task and six events, and a longer run lets other projects have their turn in
 * between.
 */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { Activities, IdleConversationsInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil } from './poll-until.ts';
import { recoveringLocally } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const { readIdleConversations } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '1 minute',
  // Retry forever, because only the database can fail and it will recover.
  retry: recoveringLocally,
  // Longer delays become timers on the server, so that they don't occupy a worker.
  localRetryThreshold: '5 seconds',
  summary: note('closeIdle'),
});

export interface IdleConversationsResult {
  readonly outcome: 'done' | 'superseded';
  /** The number of conversations that this run has closed. */
  readonly read: number;
}

export async function idleConversations(input: IdleConversationsInput): Promise<IdleConversationsResult> {
  const show = createRunStatus({ state: 'waiting' });
  let closed = 0;
  const { kind: outcome } = await pollUntil(
    async () => {
      const result = await readIdleConversations(input);
      closed += result.read;
      return result;
    },
    ({ waiting = 0 }, nextAt) => {
      const next = formatClockTime(nextAt);
      const lines = [note('conversationsWait', waiting, next), note('conversationsClosed', closed), note('nextByItself')];
      show({ state: 'waiting', waiting, read: closed, next_at: nextAt.toISOString() }, lines);
      return note('nextIdleCheck', waiting, next);
    },
    () => continueAsNew<typeof idleConversations>(input),
  );
  const end = note(outcome === 'done' ? 'noConversationsWait' : 'conversationsSuperseded');
  show({ state: 'done', outcome, read: closed }, [end, note('conversationsClosed', closed), note('nextNothing')]);
  return { outcome, read: closed };
}
