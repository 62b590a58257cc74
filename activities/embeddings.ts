/** The activity of the workflow `embedMemory`, with heartbeats while vendors compute embeddings. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, EmbedProgress } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface EmbeddingActivityDeps {
  /** Embeds passages of a project for a few minutes at most. */
  readonly embedPassages: (projectId: string, run: number, signal: AbortSignal) => Promise<EmbedProgress>;
}

export function createEmbeddingActivities({ embedPassages }: EmbeddingActivityDeps): Pick<Activities, 'embedPassages'> {
  return {
    embedPassages: ({ project_id: projectId, run }) =>
      withHeartbeats(async () => {
        const { kind, passages } = await embedPassages(projectId, run, cancellationSignal());
        return { kind, passages };
      }),
  };
}
