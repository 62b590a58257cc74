/** `gateway_why` explains why a call was served by its model, or why it wasn't served at all. */
import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { callResponse } from '../../http/routes/provision/response-schemas.ts';
import type { CallRow } from '../../usage/call-rows.ts';
import { type AnyTool, defineTool } from './tool.ts';

export interface ExplainCallToolDeps {
  /** Resolves to null if the project has no such call. */
  readonly findCall: (projectId: string, id: string) => Promise<CallRow | null>;
}

export function createExplainCallTool({ findCall }: ExplainCallToolDeps): AnyTool {
  return defineTool({
    name: 'gateway_why',
    title: 'Explain a call',
    description:
      'Returns the plan and the attempts of a call: each model that was considered, why a model was skipped, and the status, latency and ' +
      'cost of each attempt, with the reason if it failed. Never returns prompts or answers.',
    scope: 'usage:read',
    isReadOnly: true,
    input: z.object({ call_id: z.uuid().describe('The response header x-gateway-call-id of the call.') }),
    output: z.object({ call: callResponse }),
    async run({ call_id: id }, { project }) {
      const call = await findCall(project.projectId, id);
      if (call === null) throw gatewayError('not_found', { message: 'call_id: the project has no such call' });
      return { output: { call } };
    },
  });
}
