/**
 * Calls of the memory worker: through the project's own routing, ceilings and records like any call, spent by the application
 * `gateway-memory` (specification 4.8 rule 9). Of the tiers of a job the first that has a chain is asked.
 */
import type { Call } from '../../core/call.ts';
import { noCorrelation } from '../../core/call.ts';
import { GatewayError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import { chat } from '../../dialects/chat/codec.ts';
import type { Failure } from '../../memory/learning/groups.ts';
import type { MemoryAnswer, MemoryCall, MemoryJob, MemoryModel } from '../../memory/learning/learn-group.ts';
import type { Catalog } from '../../routing/catalog.ts';
import type { Planner } from '../../routing/plan.ts';
import { findTier } from '../../routing/rules.ts';
import { startControl } from '../call/cancellation.ts';
import type { AnswerCall } from '../call/handle-call.ts';
import { backgroundCaller, makeOwnCall, memorySource } from '../call/internal-call.ts';
import type { CalledProject } from '../call/project-context.ts';

const tiersOf: Readonly<Record<MemoryJob, readonly string[]>> = {
  extract: ['memory-extract', 'trivial'],
  consolidate: ['memory-consolidate', 'memory-extract', 'trivial'],
};
/** For all attempts along the chain. Nobody waits for it, so a slow model may be one. */
const callLimitMs = 5 * 60_000;

export interface MemoryModelDeps {
  readonly answerCall: AnswerCall;
  readonly planner: Planner;
  readonly catalog: () => Catalog;
  readonly findProject: (projectId: string) => Project | Promise<Project>;
  readonly clock: Clock;
}

interface Project {
  readonly slug: string;
  readonly settings: CalledProject;
}

export function createMemoryModel({ answerCall, planner, catalog, findProject, clock }: MemoryModelDeps): MemoryModel {
  return {
    async hasRoute(projectId, job) {
      const { settings } = await findProject(projectId);
      const tier = tierOf(settings, job);
      return tier !== null && canPlan(projectId, settings, tier);
    },
    async ask(question) {
      const { slug, settings } = await findProject(question.projectId);
      const tier = tierOf(settings, question.job);
      if (tier === null) return { kind: 'failure', failure: { kind: 'held', code: 'no_route', message: 'no tier for memory has a chain' } };
      question.signal.throwIfAborted();
      const call = callOf({ question, slug, tier, now: clock.now() });
      // Like a stream it can be stopped by whoever waits for it.
      const control = startControl({ stream: true, deadlineAt: call.deadlineAt, clock });
      question.signal.addEventListener('abort', control.hangUp, { once: true });
      try {
        const answer = await answerCall(call, settings, control);
        return { kind: 'answer', text: answer.kind === 'plain' ? (chat.readAnswer(answer.bytes)?.turn.text ?? '') : '' };
      } catch (error) {
        question.signal.throwIfAborted();
        return failureOf(error);
      } finally {
        question.signal.removeEventListener('abort', control.hangUp);
        control.endDeadline();
      }
    },
  };

  function tierOf(project: CalledProject, job: MemoryJob): string | null {
    const view = { catalog: catalog(), project, source: memorySource };
    return tiersOf[job].find((name) => (findTier(view, name) ?? []).length > 0) ?? null;
  }

  /** Whether a model of the tier can be asked at all. */
  function canPlan(projectId: string, project: CalledProject, tier: string): boolean {
    const caller = backgroundCaller(projectId);
    try {
      planner.plan({ caller, project, source: memorySource, route: 'chat', modelAsked: tier, autoTier: null, requiresPrice: false });
      return true;
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'no_route') return false;
      throw error;
    }
  }
}

/** Refusals speak of the request, which stays what it is: like an answer of no use they are not repeated for ever. */
const refusals: readonly string[] = ['upstream_refused', 'guardrail_blocked'];

function failureOf(error: unknown): MemoryAnswer {
  if (!(error instanceof GatewayError)) throw error;
  const { code, message } = error;
  const kind: Failure['kind'] = code === 'no_route' ? 'held' : refusals.includes(code) ? 'unusable' : 'vendor';
  return { kind: 'failure', failure: { kind, code, message } };
}

interface CallWish {
  readonly question: MemoryCall;
  readonly slug: string;
  readonly tier: string;
  readonly now: number;
}

function callOf({ question, slug, tier, now }: CallWish): Call {
  const { id, projectId, job, batchId, system, text, schema } = question;
  const asked = makeOwnCall({
    id,
    route: 'chat',
    caller: backgroundCaller(projectId),
    slug,
    tier,
    members: {
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: text },
      ],
      response_format: { type: 'json_schema', json_schema: { ...schema, strict: true } },
    },
    limitMs: callLimitMs,
    now,
  });
  return { ...asked, isOwn: true, correlation: { ...noCorrelation, triggerKind: `memory-${job}`, triggerDetail: batchId } };
}
