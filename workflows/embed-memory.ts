/** One run per project at a time: computes the vectors of stored text until none is missing. */
import { continueAsNew, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities, EmbedMemoryInput } from './contract.ts';

const { embedPassages } = proxyActivities<Activities>({
  startToCloseTimeout: '30 minutes',
  heartbeatTimeout: '30 seconds',
  // Database and vendors recover: no last attempt (decisions 8).
  retry: { initialInterval: '1 minute', backoffCoefficient: 2, maximumInterval: '6 hours' },
});

export async function embedMemory(input: EmbedMemoryInput): Promise<void> {
  while ((await embedPassages(input)).kind === 'more') {
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof embedMemory>(input);
  }
}
