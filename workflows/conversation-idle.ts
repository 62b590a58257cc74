/**
 * One run per opening of a conversation, as older versions start them: waits until the conversation has been idle for the idle time, then
 * reads it. Kept for the runs and outbox rows that they leave behind; `idle-conversations.ts` has replaced it.
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
