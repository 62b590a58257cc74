/**
 * Waits until a conversation has been idle long enough, and then closes it. Older versions start one run per opening of
 * a conversation. `idle-conversations.ts` has replaced this workflow, and we only keep it for the runs and outbox rows
 * that older versions leave behind.
 */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { Activities, ConversationIdleInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil } from './poll-until.ts';
import { recoveringLocally } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const { readConversation } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '1 minute',
  // Retry forever, because only the database can fail and it will recover.
  retry: recoveringLocally,
  // Longer delays become timers on the server, so that they don't occupy a worker.
  localRetryThreshold: '5 seconds',
  summary: note('closeIfIdle'),
});

const endNotes = { read: 'conversationClosed', gone: 'conversationGone', superseded: 'conversationSuperseded' } as const;

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
