/** The activity of the workflow `embedMemory`: some requests for vectors, with heartbeats while vendors are asked. */
import { cancellationSignal, heartbeat } from '@temporalio/activity';
import type { Activities, EmbedLook } from '../workflows/contract.ts';

export interface EmbeddingRooms {
  /** Embeds what waits of a project, for some minutes at most. */
  readonly embedPassages: (projectId: string, run: number, signal: AbortSignal) => Promise<EmbedLook>;
}

/** A third of the workflow's heartbeat timeout. */
const heartbeatMs = 10_000;

export function createEmbeddingActivities({ embedPassages }: EmbeddingRooms): Pick<Activities, 'embedPassages'> {
  return {
    async embedPassages({ project_id: projectId, run }) {
      const beating = setInterval(() => heartbeat(), heartbeatMs);
      try {
        const { kind } = await embedPassages(projectId, run, cancellationSignal());
        return { kind };
      } finally {
        clearInterval(beating);
      }
    },
  };
}
