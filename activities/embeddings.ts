/** The activity of the workflow `embedMemory`: some requests for vectors, with heartbeats while vendors are asked. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, EmbedProgress } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface EmbeddingActivityDeps {
  /** Embeds what waits of a project, for some minutes at most. */
  readonly embedPassages: (projectId: string, run: number, signal: AbortSignal) => Promise<EmbedProgress>;
}

export function createEmbeddingActivities({ embedPassages }: EmbeddingActivityDeps): Pick<Activities, 'embedPassages'> {
  return {
    embedPassages: ({ project_id: projectId, run }) =>
      withHeartbeats(async () => {
        const signal = cancellationSignal();
        const { kind } = await embedPassages(projectId, run, signal);
        return { kind };
      }),
  };
}
