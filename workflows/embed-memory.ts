/** One run per project at a time: computes embeddings of stored text until none is missing. */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, EmbedMemoryInput } from './contract.ts';
import { note } from './notes.ts';
import { repeatWhileMore } from './poll-until.ts';
import { createRunStatus } from './run-status.ts';

const options = {
  startToCloseTimeout: '30 minutes',
  heartbeatTimeout: '30 seconds',
  // Database and vendors recover: unlimited attempts.
  retry: { initialInterval: '1 minute', backoffCoefficient: 2, maximumInterval: '6 hours' },
} as const;
const { embedPassages } = proxyActivities<Activities>(options);

/** `passages`: how many this run embedded. */
export async function embedMemory(input: EmbedMemoryInput): Promise<{ readonly outcome: 'done'; readonly passages: number }> {
  const show = createRunStatus({ state: 'running', passages: 0 }, [note('embedding', 0)]);
  let passages = 0;
  await repeatWhileMore(
    async (count) => {
      const progress = await embedPassages.executeWithOptions({ ...options, summary: note('embedPassages', count) }, [input]);
      passages += progress.passages ?? 0; // Absent in histories of older versions.
      show({ state: 'running', passages }, [note('embedding', passages)]);
      return progress;
    },
    () => continueAsNew<typeof embedMemory>(input),
  );
  show({ state: 'done', passages }, [note('embedded', passages)]);
  return { outcome: 'done', passages };
}
