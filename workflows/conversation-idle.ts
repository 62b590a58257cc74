/**
 * One run per opening of a conversation: waits until the conversation has been idle for the idle time, then reads it.
 *
 * No signal is sent per call. The run starts with a delay of the idle time, checks the row, and sleeps again when the conversation went on.
 * The database computes the delay, so workflow time and database time need not agree.
 *
 * This is the most frequent workflow by far, and the Temporal server limits its rate. As a local activity, the check of a conversation with
 * one turn takes one workflow task and six events instead of four tasks and 22 events.
 */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { Activities, ConversationIdleInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil } from './poll-until.ts';
import { recoveringLocally } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const { readConversation } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '1 minute',
  // Only the database can fail here, and it recovers: unlimited attempts.
  retry: recoveringLocally,
  // Longer retry delays become timers of the server and occupy no worker.
  localRetryThreshold: '5 seconds',
  summary: note('readIfIdle'),
});

const endNotes = { read: 'conversationRead', gone: 'conversationGone', superseded: 'conversationSuperseded' } as const;

export async function conversationIdle(input: ConversationIdleInput): Promise<{ readonly outcome: string }> {
  const show = createRunStatus({ state: 'waiting' });
  const { kind: outcome } = await pollUntil(
    () => readConversation(input),
    (_, nextAt) => {
      show({ state: 'waiting', next_at: nextAt.toISOString() }, [note('waitsForIdle', formatClockTime(nextAt)), note('nextByItself')]);
      return note('idleCheck', formatClockTime(nextAt));
    },
    () => continueAsNew<typeof conversationIdle>(input),
  );
  show({ state: 'done', outcome }, [note(endNotes[outcome]), note('nextNothing')]);
  return { outcome };
}
