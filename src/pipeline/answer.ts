/**
 * The story of a call: plan, rules, attempt, settle. Whatever happens, a call that reached a vendor is in the journal before the last byte of
 * its answer leaves.
 */
import type { Call, CallFacts, CallResult, SettledCall } from '../core/call.ts';
import { VendorError } from '../core/errors.ts';
import type { Clock } from '../core/time.ts';
import type { AnswerReading, RouteRules } from '../dialects/route-rules.ts';
import { rulesOf } from '../dialects/rules-of.ts';
import type { Journal } from '../journal/journal.ts';
import type { Logger } from '../observability/logger.ts';
import type { TierRequest } from '../routing/classify.ts';
import type { Plan, Planner } from '../routing/plan.ts';
import type { StreamedAnswer, VendorAnswer } from '../vendors/text.ts';
import { createAsk } from './ask.ts';
import type { AttemptDeps, OpenAttempt } from './attempt.ts';
import { createAttemptChain } from './attempt.ts';
import type { CalledProject } from './called-project.ts';
import { createRuleChecks } from './check-rules.ts';
import type { CallControl } from './control.ts';
import type { Ending } from './settle.ts';
import { cacheOf, logCall, settleAnswered, settleBlocked, settleFailed } from './settle.ts';

type CacheUse = CallResult['cache'];

/** What goes back to the caller. `pieces` must be read to the end or returned: only then is the call settled. */
export type Answer =
  | {
      readonly kind: 'plain';
      readonly status: number;
      readonly contentType: string;
      readonly bytes: Buffer;
      readonly model: string;
      readonly cache: CacheUse;
    }
  | { readonly kind: 'stream'; readonly pieces: AsyncGenerator<Buffer, void>; readonly model: string; readonly cache: CacheUse };

export interface AnswerDeps extends AttemptDeps {
  readonly planner: Planner;
  /** Chooses for `auto`; a promise only where a model is asked. */
  readonly chooseTier: (request: TierRequest) => string | Promise<string>;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly logger: Logger;
}

const longestName = 256;

export type AnswerCall = (call: Call, project: CalledProject, control: CallControl) => Promise<Answer>;

export function createAnswerCall(deps: AnswerDeps): AnswerCall {
  const { planner, chooseTier, journal, clock, logger } = deps;
  const attemptChain = createAttemptChain(deps);
  const { checkInput, checkAnswer } = createRuleChecks({ logger });

  /** Throws GatewayError; the call has been recorded then, if a vendor was asked. */
  async function answerCall(call: Call, project: CalledProject, control: CallControl): Promise<Answer> {
    const rules = rulesOf[call.route];
    const { caller, source, route, modelAsked } = call;
    const autoTier = modelAsked === 'auto' ? await tierFor(call, project, control) : null;
    const plan = planner.plan({ caller, project, source, route, modelAsked, autoTier });
    if (project.rules.input) await checkInput(call, project.rules.input);
    const facts = factsOf(call, plan);
    const outcome = await attemptChain({ call, facts, candidates: plan.candidates, control });
    const ending = { call, facts, failed: outcome.failed };
    if (outcome.kind === 'failed') {
      await settle(settleFailed({ ...ending, endedAt: clock.now() }, outcome.error, outcome.outcome));
      throw outcome.error;
    }
    const { attempt } = outcome;
    const { answer, error } = project.rules.output
      ? await checkAnswer(call, project.rules.output, outcome.answer)
      : { answer: outcome.answer, error: null };
    if (error) {
      await settle(settleBlocked({ ...ending, endedAt: clock.now() }, attempt, readingOf(answer), error));
      throw error;
    }
    const common = { model: attempt.candidate.id, cache: cacheOf(call) };
    if (answer.kind === 'plain') {
      await settle(settleAnswered({ ...ending, endedAt: clock.now() }, attempt, answer.reading, 'ok'));
      return { kind: 'plain', status: answer.status, contentType: answer.contentType, bytes: answer.bytes, ...common };
    }
    return { kind: 'stream', pieces: deliver({ answer, attempt, ending, rules }), ...common };
  }
  return answerCall;

  /** The tier of a call that leaves the choice to the gateway. */
  function tierFor(call: Call, project: CalledProject, control: CallControl): string | Promise<string> {
    const { source, route, modelAsked, body, spans } = call;
    const ask = createAsk({ answerCall, clock, call, project });
    return chooseTier({ project, source, route, modelAsked, body, spans, remainingMs: control.remainingMs(), ask });
  }

  /** The pieces of a stream, settled however it ends: whole, broken by the vendor, or left by the caller. */
  async function* deliver(stream: {
    answer: StreamedAnswer;
    attempt: OpenAttempt;
    ending: Omit<Ending, 'endedAt'>;
    rules: RouteRules;
  }): AsyncGenerator<Buffer, void> {
    const { answer, attempt, ending, rules } = stream;
    const pieces = answer.pieces();
    let isSettled = false;
    const settleAs = async (outcome: 'ok' | 'interrupted' | 'client_left'): Promise<void> => {
      if (isSettled) return;
      isSettled = true;
      await settle(settleAnswered({ ...ending, endedAt: clock.now() }, attempt, answer.reading(), outcome));
    };
    try {
      for (;;) {
        const step = await pieces.next();
        if (!step.done) {
          if (step.value.last) await settleAs('ok');
          yield step.value.bytes;
          continue;
        }
        const end = step.value;
        await settleAs(end.kind === 'whole' ? 'ok' : 'interrupted');
        const event = end.kind === 'broken' && !end.told ? rules.interruption(end.message) : null;
        if (event !== null) yield Buffer.from(event);
        return;
      }
    } catch (error) {
      if (!(error instanceof VendorError)) throw error;
      // The caller left: `finally` settles what was delivered.
    } finally {
      await pieces.return({ kind: 'whole' });
      await settleAs('client_left');
    }
  }

  async function settle(settled: SettledCall): Promise<void> {
    await journal.settle(settled);
    logCall(logger, settled);
  }
}

function readingOf(answer: VendorAnswer): AnswerReading {
  return answer.kind === 'plain' ? answer.reading : answer.reading();
}

function factsOf(call: Call, plan: Plan): CallFacts {
  return {
    id: call.id,
    startedAt: call.startedAt,
    projectId: call.caller.projectId,
    keyId: call.caller.keyId,
    keyPrefix: call.caller.keyPrefix,
    source: call.source,
    sourceGiven: call.sourceGiven,
    route: call.route,
    // As long as any name that is recorded (decisions 5): the caller may have sent megabytes.
    modelAsked: call.modelAsked.slice(0, longestName),
    stream: call.stream,
    memory: call.memory,
    correlation: call.correlation,
    plan: plan.lines,
    bodyBytes: call.body.length,
  };
}
