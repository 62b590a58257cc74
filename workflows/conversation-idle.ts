/**
 * One run per opening of a conversation: waits until no turn came for the idle time, then the conversation is read.
 *
 * Nothing signals it (decisions 8: no signal per call). It is started with a delay of the idle time, looks at the row, and sleeps when the
 * conversation went on. The time to sleep is the database's word, so workflow time and database time need not agree.
 *
 * It is by far the most frequent workflow, and the server is what limits it. So a look is a local activity: a conversation that has one turn
 * costs one workflow task and six events, instead of four tasks and twenty-two events (docs/memory.md).
 */
import { continueAsNew, proxyLocalActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { Activities, ConversationIdleInput } from './contract.ts';

const { readConversation } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '1 minute',
  // Only the database can fail here, and that recovers: no last attempt.
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '6 hours' },
  // A longer wait for the next attempt is a timer of the server: nothing of the worker waits with it.
  localRetryThreshold: '5 seconds',
});

/** Below this a wait is rounding, not waiting; it keeps a run from spinning. */
const minWaitMs = 1_000;

export async function conversationIdle(input: ConversationIdleInput): Promise<void> {
  for (;;) {
    const result = await readConversation(input);
    if (result.kind !== 'wait') return;
    await sleep(Math.max(minWaitMs, result.waitMs));
    // A conversation that never rests would fill the history (limit 51,200 events, about a month of turns at ten minutes' idle time).
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof conversationIdle>(input);
  }
}
