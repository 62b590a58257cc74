/** `gateway_usage` returns a project's spending in the current month, in the format of `/usage/me`. */
import { z } from 'zod';
import { usageResponse } from '../../http/shapes/status-responses.ts';
import { type AnyTool, defineTool } from './tool.ts';

interface Usage {
  readonly by_model: readonly unknown[];
  readonly by_task: readonly unknown[];
  readonly by_source: readonly unknown[];
}

export interface UsageToolDeps {
  readonly getUsage: (projectId: string) => Promise<Usage>;
}

export function createUsageTool({ getUsage }: UsageToolDeps): AnyTool {
  return defineTool({
    name: 'gateway_usage',
    title: 'Read usage',
    description:
      'Returns the spend of a project in the current calendar month (UTC), in US dollars: in total, and by model, task and application, ' +
      'the most expensive first.',
    scope: 'usage:read',
    isReadOnly: true,
    input: z.object({ limit: z.int().min(1).max(1_000).default(20).describe('The maximum number of rows in each list.') }),
    output: usageResponse,
    async run({ limit }, { project }) {
      const usage = await getUsage(project.projectId);
      const [byModel, byTask, bySource] = [usage.by_model, usage.by_task, usage.by_source].map((rows) => rows.slice(0, limit));
      return { output: { ...usage, by_model: byModel, by_task: byTask, by_source: bySource } };
    },
  });
}
