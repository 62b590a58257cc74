/** One run per project at a time: computes embeddings of stored text until none is missing. */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, EmbedMemoryInput } from './contract.ts';
import { repeatWhileMore } from './poll-until.ts';

const { embedPassages } = proxyActivities<Activities>({
  startToCloseTimeout: '30 minutes',
  heartbeatTimeout: '30 seconds',
  // Database and vendors recover: unlimited attempts.
  retry: { initialInterval: '1 minute', backoffCoefficient: 2, maximumInterval: '6 hours' },
});

export async function embedMemory(input: EmbedMemoryInput): Promise<void> {
  await repeatWhileMore(
    () => embedPassages(input),
    () => continueAsNew<typeof embedMemory>(input),
  );
}
