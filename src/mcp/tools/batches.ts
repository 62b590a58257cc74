import { z } from 'zod';
import { toBatchJson } from '../../http/shapes/memory-json.ts';
import { memoryResponses } from '../../http/shapes/memory-responses.ts';
import { type Batch, type BatchState, batchStates } from '../../memory/learning/batches.ts';
import { type AnyTool, defineTool } from './tool.ts';

export interface BatchesToolDeps {
  /** Newest first. */
  readonly listBatches: (projectId: string, state: BatchState | null) => Promise<readonly Batch[]>;
}

export function createBatchesTool({ listBatches }: BatchesToolDeps): AnyTool {
  return defineTool({
    name: 'gateway_batches',
    title: 'List learning batches',
    description:
      'Lists the batches in which memory learned from conversations, newest first, with their state, cost and the reason of a failure.',
    scope: 'usage:read',
    isReadOnly: true,
    input: z.object({
      state: z.enum(batchStates).optional().describe('Only batches in this state.'),
      limit: z.int().min(1).max(100).default(20),
    }),
    output: z.object({ batches: z.array(memoryResponses.Batch) }),
    async run({ state, limit }, { project }) {
      const batches = await listBatches(project.projectId, state ?? null);
      return { output: { batches: batches.slice(0, limit).map(toBatchJson) } };
    },
  });
}
