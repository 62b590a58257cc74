/**
 * Handles a media call, with a single attempt at one provider and without cache and failover. The call is in the
 * journal before we send it, and it's settled in every case. See docs/architecture/media.md.
 */
import type { Admission } from '../../ceilings/admission.ts';
import { hasCostCeiling, type Limits } from '../../ceilings/counters.ts';
import type { Attempt, Caller, MediaCall, Outcome, SettledCall } from '../../core/call.ts';
import { type GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import { noTokens, type Tokens, type Units } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import type { Breakers } from '../../failover/breaker.ts';
import { classifyFailure } from '../../failover/classify-failure.ts';
import { reportAttempt } from '../../failover/report-attempt.ts';
import { joinRequestTexts } from '../../guardrails/echoed-text.ts';
import type { Journal } from '../../journal/journal.ts';
import type { PoolState } from '../../routing/pools.ts';
import { UnusableImagesError } from '../../vendors/images.ts';
import type { OnRequestId } from '../../vendors/media.ts';
import { recordFailure } from '../call/attempt-error.ts';
import type { CallCancellation } from '../call/cancellation.ts';
import { createRuleEnforcer, type RuleEnforcerDeps } from '../call/enforce-rules.ts';
import { limitsFor, type ProjectContext } from '../call/project-context.ts';
import { logCall } from '../call/settle.ts';
import {
  asGatewayError,
  type MediaCallRequest,
  type MediaEnd,
  mediaUsageBounds,
  type RunningMediaCall,
  reservedCharge,
  settleMediaCall,
  toMediaCallMetadata,
} from './media-record.ts';
import { checkOutput } from './output-rules.ts';

export interface MediaDeps extends RuleEnforcerDeps {
  /** Returns the ceilings of a key. Throws `limits_unavailable`. */
  readonly getKeyCeilings: (caller: Caller) => Promise<Limits['key']>;
  readonly admission: Admission;
  readonly breakers: Breakers;
  readonly pools: PoolState;
  readonly journal: Journal;
  readonly clock: Clock;
}

interface MediaResult<Value> {
  readonly value: Value;
  readonly status: number;
  readonly units: Units;
  /** Null if the vendor didn't report its token counts. */
  readonly tokens: Tokens | null;
}

/** Read `chunks` to the end or call `return` on it. Otherwise the call is never settled. */
export interface MediaStream {
  readonly model: string;
  readonly contentType: string;
  readonly chunks: AsyncGenerator<Buffer, void>;
}

/** `chunks` throws VendorError. Calling `return` on it cancels the request to the vendor. */
interface VendorStream {
  readonly status: number;
  readonly contentType: string;
  readonly chunks: AsyncGenerator<Buffer, void>;
  /**
   * Returns the usage that the vendor reported in the stream. If there is none, we charge for the units that the caller
   * requested.
   */
  readonly usage?: () => Pick<MediaEnd, 'units' | 'unitsEstimated' | 'tokens' | 'estimatedTokens'> | null;
  readonly texts?: () => readonly string[];
}

/**
 * A vendor's response that we withhold, because a content rule blocked it (`refused`) or because we couldn't process it
 * (`failed`).
 */
interface UnsentResponse {
  readonly error: GatewayError;
  readonly outcome: 'refused' | 'failed';
}

const nothing = Buffer.alloc(0);

export type MediaCalls = ReturnType<typeof createMediaCalls>;

export function createMediaCalls({ getKeyCeilings, admission, breakers, pools, journal, clock, logger, recordRuleHit }: MediaDeps) {
  const { checkTexts, checkOutput: checkOutputTexts } = createRuleEnforcer({ logger, recordRuleHit });

  return {
    /**
     * Returns true if a cost ceiling applies to the call. The planner then has to skip models without a price. Throws
     * `limits_unavailable`.
     */
    requiresPrice: async (call: MediaCall, project: ProjectContext): Promise<boolean> => hasCostCeiling(await readLimits(call, project)),
    /**
     * Handles a call with a plain response. If this throws a GatewayError after the call reached its vendor, the call
     * has already been recorded.
     */
    async execute<Value>(request: MediaCallRequest, send: (onRequestId: OnRequestId) => Promise<MediaResult<Value>>): Promise<Value> {
      const running = await open(request);
      const { status, units, tokens, value } = await send(keepRequestId(running)).catch((error: unknown) => fail(running, error, null));
      const endedAt = clock.now();
      const respondingCall = { ...running, status, firstByteMs: endedAt - running.start.startedAt };
      await settleOnFailure(respondingCall, async () => {
        report(request, null);
        await settle(respondingCall, { outcome: 'ok', status, units, tokens, endedAt });
      });
      return value;
    },
    /**
     * Handles a call with a streamed response, and cancels it if the caller disconnects. Until the stream begins, this
     * throws the same errors as `execute`.
     */
    async stream(
      request: MediaCallRequest,
      cancellation: CallCancellation,
      send: (onRequestId: OnRequestId) => Promise<VendorStream>,
    ): Promise<MediaStream> {
      const running = await open({ ...request, unsentSignal: cancellation.unsentSignal });
      const sent = send(keepRequestId(running));
      const { status, contentType, ...stream } = await sent.catch((error: unknown) => fail(running, error, cancellation));
      const respondingCall = { ...running, status, firstByteMs: clock.now() - running.start.startedAt };
      return settleOnFailure(respondingCall, async () => {
        report(request, null);
        const { chunks, error } = await applyOutputRules(request, stream);
        if (error) {
          const charged = stream.usage?.() ?? { units: request.units, tokens: null };
          await settle(respondingCall, { ...charged, outcome: 'ok', status, endedAt: clock.now() }, { error, outcome: 'refused' });
          throw error;
        }
        const delivered = deliver(respondingCall, { ...stream, chunks });
        // Run the generator up to its first `yield`. If the caller disconnects before the first chunk, `return` would
        // skip the `finally` block of a generator that hasn't started, and the call would never be settled.
        await delivered.next();
        return { model: request.candidate.id, contentType, chunks: delivered };
      });
    },
  };

  /**
   * Settles the call if `work` fails unexpectedly. The vendor has responded by then and bills the call, so we charge
   * it.
   */
  async function settleOnFailure<Result>(running: RunningMediaCall, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (cause) {
      if (running.progress.isSettled) throw cause;
      const error = asGatewayError(cause);
      const end = {
        outcome: 'ok',
        units: running.request.units,
        tokens: null,
        status: running.status ?? 200,
        endedAt: clock.now(),
      } as const;
      await settle(running, end, { error, outcome: 'failed' });
      throw error;
    }
  }

  async function readLimits(call: MediaCall, project: ProjectContext): Promise<Limits> {
    return limitsFor(call, project, await getKeyCeilings(call.caller));
  }

  /** Admits a call and writes it to the journal. If this throws, the call isn't recorded. */
  async function open(request: MediaCallRequest): Promise<RunningMediaCall> {
    const { call, project, candidate, texts } = request;
    if (!project.mayCall) throw gatewayError('subscription_required', { refusal: { reason: 'calls_off' } });
    const limits = await readLimits(call, project);
    const reservation = await admission.admit({
      limits,
      startedAt: call.startedAt,
      bounds: () => mediaUsageBounds(request),
    });
    const { provider, model, member } = candidate;
    const endLoad = member && pools.loads.begin(member.key);
    try {
      if (project.rules.input) await checkTexts(call, project.rules.input, texts, request.unsentSignal);
      const start = { n: 1, provider, model, ...(member && { member: member.name }), startedAt: clock.now() };
      const metadata = toMediaCallMetadata(request, reservation);
      await journal.open(metadata, start);
      const progress = { isSettled: false, requestId: null };
      return { request, metadata, reservation, start, status: null, firstByteMs: null, progress, endLoad };
    } catch (error) {
      endLoad?.();
      reservation.release();
      throw asGatewayError(error);
    }
  }

  function keepRequestId({ progress }: RunningMediaCall): OnRequestId {
    return (requestId) => {
      progress.requestId = requestId;
    };
  }

  /**
   * Settles a call that got no response, and throws the error for the caller. We charge the call if the vendor may
   * still bill it, i.e. if the caller disconnected or a shutdown cut the call off after it was sent. We also charge it
   * after an unexpected error of our own, since the vendor may have responded before that, and if the vendor generated
   * images that we can't use.
   */
  async function fail(running: RunningMediaCall, cause: unknown, cancellation: CallCancellation | null): Promise<never> {
    const request = { ...running.request, ...running.request.usageWhenCut?.() };
    const error = asGatewayError(cause);
    const vendorError = cause instanceof VendorError ? cause : null;
    if (vendorError) report(request, vendorError);
    if (cause instanceof UnusableImagesError) {
      const { status, tokens, generated } = cause;
      const units = generated === null ? request.units : { ...request.units, images: generated };
      const describe = (attempt: Attempt) => describeFailure(request, cause)({ ...attempt, outcome: 'failed' });
      const end = { units, unitsEstimated: true, tokens, endedAt: clock.now(), describe };
      await settle({ ...running, status }, { ...end, outcome: 'ok', status: status ?? 200 }, { error, outcome: 'failed' });
      throw error;
    }
    const isUnsent = vendorError?.isUnsent ?? false;
    const hasLeft = cancellation?.cancelledBy() === 'client';
    const isCut = vendorError?.kind === 'stopped';
    const isRefused = vendorError !== null && classifyFailure(vendorError) === 'refused';
    // This error means that the vendor has accepted a video job but we couldn't store it (video/start-video.ts).
    const isUnrecorded = error.code === 'budget_unavailable';
    const isUnexpected = error.code === 'internal_error';
    const end =
      hasLeft || isCut || isUnrecorded || isUnexpected
        ? ({ outcome: hasLeft ? 'client_left' : 'unknown', units: isUnsent ? {} : request.units, tokens: null, isUnsent } as const)
        : ({ outcome: isRefused ? 'refused' : 'failed', units: {}, tokens: noTokens } as const);
    await settle(
      { ...running, request, status: vendorError?.status ?? null },
      { ...end, error, status: hasLeft ? 499 : error.status, endedAt: clock.now(), describe: describeFailure(request, cause) },
    );
    throw error;
  }

  function applyOutputRules({ call, project }: MediaCallRequest, { chunks, texts }: Pick<VendorStream, 'chunks' | 'texts'>) {
    const rules = project.rules.output;
    if (!rules || !texts) return { chunks, error: null };
    const check = () => checkOutputTexts(call, rules, texts());
    return checkOutput(rules, chunks, check);
  }

  /** Relays a vendor's stream, and settles the call when the stream completes, fails or is abandoned by the caller. */
  async function* deliver(
    running: RunningMediaCall,
    { chunks, usage }: Pick<VendorStream, 'chunks' | 'usage'>,
  ): AsyncGenerator<Buffer, void> {
    const { request, status } = running;
    const settleAs = async (outcome: Outcome, error?: GatewayError, cause?: unknown): Promise<void> => {
      if (running.progress.isSettled) return;
      const charged = usage?.() ?? { units: request.units, tokens: null };
      const end = { ...charged, outcome, status: status ?? 200, endedAt: clock.now() };
      await settle(running, error ? { ...end, error, describe: describeFailure(request, cause) } : end);
    };
    try {
      yield nothing;
      yield* chunks;
      await settleAs('ok');
    } catch (cause) {
      // The caller has disconnected. `finally` settles the call.
      if (cause instanceof VendorError && cause.kind === 'aborted') return;
      if (cause instanceof VendorError) report(request, cause);
      const error = asGatewayError(cause);
      await settleAs('interrupted', error, cause);
      throw error;
    } finally {
      await chunks.return();
      await settleAs('client_left');
    }
  }

  function describeFailure({ call, texts }: MediaCallRequest, cause: unknown): (attempt: Attempt) => Attempt {
    return (attempt) => recordFailure(logger, call, attempt, cause, () => joinRequestTexts(texts));
  }

  function report({ call, candidate }: MediaCallRequest, error: VendorError | null): void {
    reportAttempt(breakers, { projectId: call.caller.projectId, candidate, error, now: clock.now() });
  }

  /**
   * If a bug prevents us from computing the charge, we charge the reservation, because it would never end otherwise.
   */
  function toSettledCall(running: RunningMediaCall, end: MediaEnd): SettledCall {
    try {
      return settleMediaCall(running, end);
    } catch (err) {
      const { request, metadata } = running;
      logger.error({ err, call: metadata.id }, 'cannot compute the charge of a call');
      return settleMediaCall(running, { ...end, units: request.units }, reservedCharge(request));
    }
  }

  /**
   * Replaces the reservation with the actual usage and records the call. We also charge for responses that we withhold,
   * because the vendor bills them.
   */
  async function settle(running: RunningMediaCall, end: MediaEnd, unsent?: UnsentResponse): Promise<void> {
    const { result, ...call } = toSettledCall(running, end);
    const failure = unsent && { outcome: unsent.outcome, status: unsent.error.status, code: unsent.error.code };
    running.progress.isSettled = true;
    running.endLoad?.();
    const settled = { ...call, result: running.reservation.settle({ ...result, ...failure }) };
    await journal.settle(settled);
    logCall(logger, running.request.call, settled);
  }
}
