/**
 * Makes model calls for the memory worker. They use the project's routing, ceilings and records like any other call,
 * and are charged to the application `gateway-memory`. Each kind of job has a list of tiers, and we use the first one
 * that has a chain.
 */
import { memoryApplication, noCorrelation } from '../../core/call.ts';
import { GatewayError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import type { GroupFailure } from '../../memory/learning/groups.ts';
import type { MemoryJob, MemoryModel, MemoryResponse } from '../../memory/learning/learn-group.ts';
import type { Catalog } from '../../routing/catalog.ts';
import type { Planner } from '../../routing/plan.ts';
import { isContentRejected } from '../call/chain-error.ts';
import type { HandleCall } from '../call/handle-call.ts';
import {
  backgroundCaller,
  buildInternalCall,
  completionText,
  findTierWithChain,
  type MemoryProject,
  promptMessages,
  runInternalCall,
} from '../call/internal-call.ts';
import type { ProjectContext } from '../call/project-context.ts';

const tiersByJob: Readonly<Record<MemoryJob, readonly string[]>> = {
  extract: ['memory-extract', 'trivial'],
  consolidate: ['memory-consolidate', 'memory-extract', 'trivial'],
};
/** The timeout for all attempts together. It's generous, because memory jobs run in the background. */
const callTimeoutMs = 5 * 60_000;

export interface MemoryModelDeps {
  readonly handleCall: HandleCall;
  readonly planner: () => Planner;
  readonly catalog: () => Catalog;
  readonly findProject: (projectId: string) => Promise<MemoryProject>;
  readonly clock: Clock;
}

export function createMemoryModel({ handleCall, planner, catalog, findProject, clock }: MemoryModelDeps): MemoryModel {
  return {
    async hasRoute(projectId, job) {
      const { settings } = await findProject(projectId);
      const tier = selectTier(settings, job);
      return tier !== null && canPlan(projectId, settings, tier);
    },
    async complete({ id, projectId, job, batchId, system, text, schema, signal }) {
      const { slug, settings } = await findProject(projectId);
      const tier = selectTier(settings, job);
      if (tier === null)
        return {
          kind: 'failure',
          failure: {
            kind: 'blocked',
            code: 'no_route',
            message: 'no model is configured for learning: add one to the tier memory-extract or trivial',
          },
        };
      signal.throwIfAborted();
      const call = buildInternalCall({
        id,
        route: 'chat',
        caller: backgroundCaller(projectId),
        slug,
        model: tier,
        members: {
          messages: promptMessages(system, text),
          response_format: { type: 'json_schema', json_schema: { ...schema, strict: true } },
        },
        timeoutMs: callTimeoutMs,
        now: clock.now(),
        correlation: { ...noCorrelation, triggerKind: `memory-${job}`, triggerDetail: batchId },
        isInternal: true,
      });
      try {
        return { kind: 'response', text: completionText(await runInternalCall({ handleCall, call, project: settings, clock, signal })) };
      } catch (error) {
        signal.throwIfAborted();
        return toFailure(error);
      }
    },
  };

  function selectTier(project: ProjectContext, job: MemoryJob): string | null {
    return findTierWithChain({ catalog: catalog(), project, source: memoryApplication }, tiersByJob[job]);
  }

  function canPlan(projectId: string, project: ProjectContext, tier: string): boolean {
    const caller = backgroundCaller(projectId);
    try {
      planner().plan({
        caller,
        project,
        source: memoryApplication,
        route: 'chat',
        requestedModel: tier,
        autoTier: null,
        requiresPrice: false,
      });
      return true;
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'no_route') return false;
      throw error;
    }
  }
}

function toFailure(error: unknown): MemoryResponse {
  if (!(error instanceof GatewayError)) throw error;
  const { code, message } = error;
  // If a content rule or the vendor rejected the prompt, a retry would be rejected as well. So count it as an unusable
  // response, and not as a failure of the vendor.
  const kind: GroupFailure['kind'] = code === 'no_route' ? 'blocked' : isContentRejected(error) ? 'unusable' : 'vendor';
  return { kind: 'failure', failure: { kind, code, message } };
}
