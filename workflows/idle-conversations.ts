/**
 * Waits until conversations of a project have been idle long enough, and then closes them. There's one run of this
 * workflow while a project has open conversations.
 *
 * We don't use one run per conversation. That would be by far the most frequent workflow, and the throughput of the
 * Temporal server is limited. If 6,000 conversations ended at the same time, they would delay everything else in the
 * queue. We don't send a signal per call either. Instead, the run starts after a delay that equals the idle time, and
 * each check returns how long to wait for the next conversation.
 *
 * A check is a local activity that takes a few seconds at most. If there's only one conversation, the run needs one
 * workflow task and six events. Longer runs let other projects have their turn between checks.
 */
import { continueAsNew, proxyLocalActivities } from '@temporalio/workflow';
import type { Activities, ProjectRunInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil } from './poll-until.ts';
import { localOptions } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const { readIdleConversations } = proxyLocalActivities<Activities>({ ...localOptions, summary: note('closeIdle') });

export async function idleConversations(
  input: ProjectRunInput,
): Promise<{ readonly outcome: 'done' | 'superseded'; readonly read: number }> {
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
