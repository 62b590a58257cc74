/**
 * Waits until a conversation has been idle long enough, and then closes it. This has been replaced by
 * `idle-conversations.ts`. We only keep it for runs and outbox rows from older versions, which start a run each time a
 * conversation is opened.
 */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { Activities, ConversationIdleInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil } from './poll-until.ts';
import { localOptions } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const { readConversation } = proxyLocalActivities<Activities>({ ...localOptions, summary: note('closeIfIdle') });

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
