/**
 * The story of a call: plan, rules, recall, cache, admit, attempt, settle. Whatever happens, a call that reached a vendor is in the journal
 * before the last byte of its answer leaves.
 */
import type { Admission } from '../../ceilings/admission.ts';
import type { Limits } from '../../ceilings/counters.ts';
import { hasCostCeiling } from '../../ceilings/counters.ts';
import type { Call, CallResult, Candidate, Outcome, SettledCall } from '../../core/call.ts';
import { GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import type { AnswerReading } from '../../dialects/contract/route-codec.ts';
import { rulesOf } from '../../dialects/routes/route-codecs.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Recall } from '../../memory/recall/recall.ts';
import type { Logger } from '../../observability/logger.ts';
import type { TierRequest } from '../../routing/classify.ts';
import type { Plan, Planner } from '../../routing/plan.ts';
import type { StreamedAnswer, VendorAnswer } from '../../vendors/text.ts';
import { replayHit } from '../cache/replay-cached.ts';
import type { Hit, ResponseCache } from '../cache/response-cache.ts';
import type { AttemptDeps } from './attempt.ts';
import { createAttemptChain } from './attempt.ts';
import { createOwnPart, type OwnPart } from './budget-reservation.ts';
import type { CallControl } from './cancellation.ts';
import { createRuleChecks } from './enforce-rules.ts';
import { createAsk } from './internal-completion.ts';
import type { CalledProject } from './project-context.ts';
import { recallFor } from './recall-step.ts';
import type { Ending } from './settle.ts';
import { cacheOf, factsOf, logCall, settleAnswered, settleBlocked, settleFailed, settleHit } from './settle.ts';
import { boundsOf } from './usage-bounds.ts';

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
  readonly recall: Recall;
  readonly responseCache: ResponseCache;
  /** Ceilings of a key; a promise only when they must be read. Throws `limits_unavailable`. */
  readonly ceilingsOf: (keyId: string) => Limits['key'] | Promise<Limits['key']>;
  readonly admission: Admission;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly logger: Logger;
}

const streamType = 'text/event-stream';

export type AnswerCall = (call: Call, project: CalledProject, control: CallControl) => Promise<Answer>;

export function createAnswerCall(deps: AnswerDeps): AnswerCall {
  const { planner, chooseTier, recall, responseCache, ceilingsOf, admission, journal, clock, logger } = deps;
  const attemptChain = createAttemptChain(deps);
  const { checkInput, checkAnswer, checkWhole } = createRuleChecks({ logger });

  /** Throws GatewayError; the call has been recorded then, if a vendor was asked. */
  async function answerCall(call: Call, project: CalledProject, control: CallControl): Promise<Answer> {
    const { caller, source, startedAt } = call;
    const found = ceilingsOf(caller.keyId);
    const key = found instanceof Promise ? await found : found;
    const limits: Limits = { projectId: caller.projectId, keyId: caller.countedAs, source, key, project };
    const own = createOwnPart((toSend, candidates) => admission.admit({ limits, startedAt, bounds: () => boundsOf(toSend, candidates) }));
    try {
      return await answerWith({ call, project, control, own, requiresPrice: hasCostCeiling(limits) });
    } finally {
      own.release();
    }
  }

  async function answerWith({ call, project, control, own, requiresPrice }: Admissible): Promise<Answer> {
    const { caller, source, route, modelAsked } = call;
    const planFor = (autoTier: string | null): Plan =>
      planner.plan({ caller, project, source, route, modelAsked, autoTier, requiresPrice });
    const mayAsk = (): Promise<boolean> =>
      own.hold(
        call,
        candidatesOrNone(() => planFor(null)),
      );
    const plan = planFor(modelAsked === 'auto' ? await tierFor({ call, project, control, mayAsk }) : null);
    if (!project.mayCall) throw gatewayError('subscription_required');
    if (project.rules.input) await checkInput(call, project.rules.input);
    // Vendors, cache and bounds go by the body as recall left it; the records hold what the caller sent.
    const { candidates } = plan;
    const known = call.memory.mode === 'recall' ? await recallFor({ call, recall, own, candidates }) : null;
    const asked = known?.call ?? call;
    const recalled = known?.recalled.itemIds ?? [];
    const about = known?.recalled.subjects ?? [];
    const { hit, recording } = responseCache.lookUp({ call: asked, alsoAbout: about, settings: project.cache, candidates });
    if (hit) return answerFromCache({ hit, ending: { call, recalled, facts: factsOf(call, plan), failed: [] }, project, control });

    const admitted = own.admit(asked, candidates);
    const holds = admitted instanceof Promise ? await admitted : admitted;
    // Only now: what a breaker lets through must be tried, and what is kept is found however the vendors are.
    const ordered = planner.order(plan, { caller, project });
    const facts = factsOf(call, ordered, holds);
    const outcome = await attemptChain({ call: asked, facts, candidates: ordered.candidates, control }).catch((error: unknown) => {
      // The call was not made, and leaves no record.
      holds.release();
      throw error;
    });
    const ending = { call, recalled, facts, failed: outcome.failed };
    const settle = (settled: SettledCall): Promise<void> => record({ ...settled, result: holds.settle(settled.result) });
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
    /** Only whole, good answers are kept. */
    const end = async (reading: AnswerReading, how: Outcome): Promise<void> => {
      if (how === 'ok' && answer.status === 200 && reading.finished === true) keep();
      await settle(settleAnswered({ ...ending, endedAt: clock.now() }, attempt, reading, how));
    };
    const keep = (): void => {
      if (answer.kind === 'plain') recording?.add(answer.bytes);
      recording?.keep({ model: attempt.candidate.id, contentType: answer.kind === 'plain' ? answer.contentType : streamType });
    };
    if (answer.kind === 'plain') {
      await end(answer.reading, 'ok');
      return { kind: 'plain', status: answer.status, contentType: answer.contentType, bytes: answer.bytes, ...common };
    }
    return { kind: 'stream', pieces: deliver({ call, answer, end, record: recording?.add }), ...common };
  }
  return answerCall;

  /** The tier of a call that leaves the choice to the gateway. */
  function tierFor({ call, project, control, mayAsk }: TierQuestion): string | Promise<string> {
    const { source, route, modelAsked, body, spans } = call;
    const ask = createAsk({ answerCall, mayAsk, clock, call, project });
    return chooseTier({ project, source, route, modelAsked, body, spans, remainingMs: control.remainingMs(), ask });
  }

  /** No vendor is asked, so the call has no attempts, costs nothing and stands in the journal with its end alone. */
  async function answerFromCache({ hit, ending, project, control }: CacheAnswer): Promise<Answer> {
    control.endDeadline();
    const { call } = ending;
    const { bytes, contentType, model, reading } = hit;
    // The rules in force now; they may be stricter than those that the answer has passed.
    const error = project.rules.output ? await checkWhole(call, project.rules.output, bytes) : null;
    if (error) {
      await record(settleHit({ ...ending, endedAt: clock.now() }, hit, { outcome: 'refused', error }));
      throw error;
    }
    const end = (_reading: AnswerReading, outcome: Outcome): Promise<void> =>
      record(settleHit({ ...ending, endedAt: clock.now() }, hit, { outcome, error: null }));
    if (call.stream) return { kind: 'stream', pieces: deliver({ call, answer: replayHit(hit), end }), model, cache: 'hit' };
    await end(reading, 'ok');
    return { kind: 'plain', status: 200, contentType, bytes, model, cache: 'hit' };
  }

  /** The pieces of a stream, settled by `end` however it ends: whole, broken by the vendor, or left by the caller. */
  async function* deliver({ call, answer, end, record }: Delivery): AsyncGenerator<Buffer, void> {
    const pieces = answer.pieces();
    let isSettled = false;
    const settleAs = async (how: 'ok' | 'interrupted' | 'client_left'): Promise<void> => {
      if (isSettled) return;
      isSettled = true;
      await end(answer.reading(), how);
    };
    try {
      for (;;) {
        const step = await pieces.next();
        if (!step.done) {
          record?.(step.value.bytes);
          if (step.value.last) await settleAs('ok');
          yield step.value.bytes;
          continue;
        }
        const ended = step.value;
        await settleAs(ended.kind === 'whole' ? 'ok' : 'interrupted');
        const event = ended.kind === 'broken' && !ended.told ? rulesOf[call.route].interruption(ended.message) : null;
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

  async function record(settled: SettledCall): Promise<void> {
    await journal.settle(settled);
    logCall(logger, settled);
  }
}

/** The usual tier may be closed to a call that another one is going to be chosen for. */
function candidatesOrNone(plan: () => Plan): readonly Candidate[] {
  try {
    return plan().candidates;
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'no_route') return [];
    throw error;
  }
}

function readingOf(answer: VendorAnswer): AnswerReading {
  return answer.kind === 'plain' ? answer.reading : answer.reading();
}

interface Admissible {
  readonly call: Call;
  readonly project: CalledProject;
  readonly control: CallControl;
  readonly own: OwnPart;
  /** A ceiling of cost applies: models without a price are left out. */
  readonly requiresPrice: boolean;
}

interface TierQuestion extends Pick<Admissible, 'call' | 'project' | 'control'> {
  readonly mayAsk: () => Promise<boolean>;
}

/** A call that was found in the response cache. */
interface CacheAnswer {
  readonly hit: Hit;
  readonly ending: Omit<Ending, 'endedAt'>;
  readonly project: CalledProject;
  readonly control: CallControl;
}

/** A stream on its way to the caller. */
interface Delivery {
  readonly call: Call;
  readonly answer: Pick<StreamedAnswer, 'pieces' | 'reading'>;
  readonly end: (reading: AnswerReading, how: Outcome) => Promise<void>;
  /** Takes down what goes to the caller. */
  readonly record?: ((bytes: Buffer) => void) | undefined;
}
