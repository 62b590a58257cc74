/** `gateway_why` explains why a certain model served a call, or why none did. */
import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { callResponse, refusedCallResponse } from '../../http/shapes/call-responses.ts';
import { toRefusedCallJson } from '../../http/shapes/refused-call-json.ts';
import type { CallRow } from '../../usage/call-rows.ts';
import type { RefusedCallRow } from '../../usage/refusals/read-refusals.ts';
import { type AnyTool, defineTool } from './tool.ts';

export interface ExplainCallToolDeps {
  /** Returns null if the project has no such call. */
  readonly findCall: (projectId: string, id: string) => Promise<CallRow | null>;
  /** Returns null if the project has no such refused call. */
  readonly findRefused: (projectId: string, id: string) => Promise<RefusedCallRow | null>;
}

export function createExplainCallTool({ findCall, findRefused }: ExplainCallToolDeps): AnyTool {
  return defineTool({
    name: 'gateway_why',
    title: 'Explain a call',
    description:
      'Returns the plan and the attempts of a call: each model that was considered, why a model was skipped, and the status, latency and ' +
      'cost of each attempt, with the reason if it failed. For a call that the gateway refused, returns which rule or ceiling refused it ' +
      'and what to do about it, as `refused_call`. Never returns prompts or answers.',
    scope: 'usage:read',
    isReadOnly: true,
    input: z.object({ call_id: z.uuid().describe('The response header x-gateway-call-id of the call.') }),
    output: z.object({ call: callResponse.optional(), refused_call: refusedCallResponse.optional() }),
    async run({ call_id: id }, { project }) {
      const call = await findCall(project.projectId, id);
      if (call !== null) return { output: { call } };
      const refused = await findRefused(project.projectId, id);
      if (refused === null) throw gatewayError('not_found', { message: 'call_id: the project has no such call' });
      return { output: { refused_call: toRefusedCallJson(refused) } };
    },
  });
}
