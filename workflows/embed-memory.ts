/** Computes missing embeddings of stored texts. Each project has at most one run at a time. */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, EmbedProgress, ProjectRunInput } from './contract.ts';
import { note } from './notes.ts';
import { repeatWhileMore } from './poll-until.ts';
import { createRetries, retryTurnedAway, vendorRecovering } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const options = { startToCloseTimeout: '30 minutes', heartbeatTimeout: '30 seconds', retry: retryTurnedAway } as const;
const { embedPassages } = proxyActivities<Activities>(options);

export interface EmbedMemoryResult {
  readonly outcome: 'done' | 'no_route' | 'superseded';
  readonly passages: number;
}

export async function embedMemory(input: ProjectRunInput): Promise<EmbedMemoryResult> {
  const continueRun = () => continueAsNew<typeof embedMemory>(input);
  const show = createRunStatus({ state: 'running', passages: 0 }, [note('embedding', 0), note('nextByItself')]);
  const retry = createRetries(show, continueRun);
  let passages = 0;
  let outcome: EmbedMemoryResult['outcome'] = 'done';
  await repeatWhileMore(async (slice) => {
    const embed = (): Promise<EmbedProgress> =>
      embedPassages.executeWithOptions({ ...options, summary: note('embedPassages', slice) }, [input]);
    const progress = await retry(embed, vendorRecovering, { facts: { passages }, lines: [note('embedding', passages)] });
    // older versions returned no count
    passages += progress.passages ?? 0;
    outcome = progress.reason ?? 'done';
    show({ state: 'running', passages }, [note('embedding', passages), note('nextByItself')]);
    return progress;
  }, continueRun);
  show({ state: 'done', outcome, passages }, describeEnd(outcome, passages));
  return { outcome, passages };
}

function describeEnd(outcome: EmbedMemoryResult['outcome'], passages: number): string[] {
  if (outcome === 'no_route') return [note('embeddingNoRoute', passages), note('nextEmbeddingRoute')];
  return [note(outcome === 'superseded' ? 'embeddingSuperseded' : 'embedded', passages), note('nextNothing')];
}
