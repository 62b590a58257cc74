/**
 * The story of a media call, the shorter sister of `answer.ts`: one provider is asked, once. The call stands in the journal before the
 * vendor is asked, and is settled before the last byte of its answer leaves, however it ends.
 */
import type { Admission } from '../../ceilings/admission.ts';
import type { Limits } from '../../ceilings/counters.ts';
import { hasCostCeiling } from '../../ceilings/counters.ts';
import type { MediaCall, Outcome } from '../../core/call.ts';
import { type GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import type { Tokens, Units } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import type { Breakers } from '../../failover/breaker.ts';
import { classifyFailure, isProviderFailure } from '../../failover/classify-failure.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Logger } from '../../observability/logger.ts';
import type { CallCancellation } from '../call/cancellation.ts';
import { createRuleEnforcer } from '../call/enforce-rules.ts';
import type { ProjectContext } from '../call/project-context.ts';
import { logCall } from '../call/settle.ts';
import type { MediaCallRequest, MediaEnd, RunningMediaCall } from './media-record.ts';
import { asGatewayError, isRefusal, mediaUsageBounds, settleMediaCall, toMediaCallMetadata } from './media-record.ts';

export interface MediaDeps {
  /** Ceilings of a key; a promise only when they must be read. Throws `limits_unavailable`. */
  readonly getKeyCeilings: (keyId: string) => Limits['key'] | Promise<Limits['key']>;
  readonly admission: Admission;
  readonly breakers: Breakers;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What a vendor was asked and gave. */
export interface MediaResult<Value> {
  readonly value: Value;
  readonly status: number;
  readonly units: Units;
  /** The vendor's own count; null: it gave none. */
  readonly tokens: Tokens | null;
}

/** Audio on its way. `pieces` must be read to the end or returned: only then is the call settled. */
export interface MediaStream {
  readonly model: string;
  readonly contentType: string;
  readonly chunks: AsyncGenerator<Buffer, void>;
}

/** A vendor's answer that has begun. `pieces` throws VendorError; stopping early (`return`) ends the vendor's request. */
export interface VendorStream {
  readonly status: number;
  readonly contentType: string;
  readonly chunks: AsyncGenerator<Buffer, void>;
}

export interface MediaCalls {
  /** Whether a cost ceiling applies, so that a model without a price must not be asked. Throws `limits_unavailable`. */
  requiresPrice(call: MediaCall, project: ProjectContext): Promise<boolean>;
  /** Asks for what comes whole. Throws GatewayError; the call is recorded then, if the vendor was asked. */
  execute<Value>(request: MediaCallRequest, send: () => Promise<MediaResult<Value>>): Promise<Value>;
  /** Asks for what comes as a stream; `control` ends it when the caller leaves. Throws likewise, until the stream has begun. */
  stream(request: MediaCallRequest, cancellation: CallCancellation, send: () => Promise<VendorStream>): Promise<MediaStream>;
}

export function createMediaCalls({ getKeyCeilings, admission, breakers, journal, clock, logger }: MediaDeps): MediaCalls {
  const { checkTexts } = createRuleEnforcer({ logger });

  return {
    requiresPrice: async (call, project) => hasCostCeiling(await limitsOf(call, project)),
    async execute(request, send) {
      const running = await open(request);
      const answer = await send().catch((error: unknown) => fail(running, error, null));
      reportToBreaker(request, null);
      const { status, units, tokens, value } = answer;
      const endedAt = clock.now();
      const respondingCall = { ...running, firstByteMs: endedAt - running.start.startedAt };
      await settle(respondingCall, { outcome: 'ok', status, units, tokens, endedAt });
      return value;
    },
    async stream(request, cancellation, send) {
      const running = await open(request);
      const { status, contentType, chunks } = await send().catch((error: unknown) => fail(running, error, cancellation));
      reportToBreaker(request, null);
      const respondingCall = { ...running, status, firstByteMs: clock.now() - running.start.startedAt };
      return { model: request.candidate.id, contentType, chunks: deliver(respondingCall, chunks) };
    },
  };

  async function limitsOf({ caller, source }: MediaCall, project: ProjectContext): Promise<Limits> {
    return { projectId: caller.projectId, keyId: caller.quotaKeyId, source, key: await getKeyCeilings(caller.keyId), project };
  }

  /** Throws what refuses the call; then nothing of it is left. */
  async function open(request: MediaCallRequest): Promise<RunningMediaCall> {
    const { call, project, candidate, texts } = request;
    if (!project.mayCall) throw gatewayError('subscription_required');
    if (project.rules.input) await checkTexts(call, project.rules.input, texts);
    const limits = await limitsOf(call, project);
    const reservation = await admission.admit({ limits, startedAt: call.startedAt, bounds: () => mediaUsageBounds(request) });
    const start = { n: 1, provider: candidate.provider, model: candidate.model, startedAt: clock.now() };
    const metadata = toMediaCallMetadata(request, reservation);
    try {
      await journal.open(metadata, start);
    } catch (error) {
      reservation.release();
      throw error;
    }
    return { request, metadata, reservation, start, status: null, firstByteMs: null };
  }

  /**
   * Settles what never became an answer, and throws what the caller is told. A caller who left is charged: his vendor was asked. So is a call
   * that the service's end cuts: its vendor may go on.
   */
  async function fail(running: RunningMediaCall, cause: unknown, cancellation: CallCancellation | null): Promise<never> {
    const { request } = running;
    const error = asGatewayError(cause);
    const hasLeft = cancellation?.cancelledBy() === 'client';
    if (cause instanceof VendorError) reportToBreaker(request, cause);
    const status = cause instanceof VendorError ? cause.status : null;
    const isCut = cause instanceof VendorError && cause.kind === 'stopped';
    // The vendor has taken the order, and it could not be written down (video.ts).
    const isUnrecorded = error.code === 'budget_unavailable';
    const end =
      hasLeft || isCut || isUnrecorded
        ? ({ outcome: hasLeft ? 'client_left' : 'unknown', units: request.units, tokens: null } as const)
        : ({ outcome: isRefusal(cause) ? 'refused' : 'failed', units: {}, tokens: noTokens } as const);
    await settle({ ...running, status }, { ...end, error, status: hasLeft ? 499 : error.status, endedAt: clock.now() });
    throw error;
  }

  /** The pieces of a stream, settled however it ends: whole, broken by the vendor, or left by the caller. */
  async function* deliver(running: RunningMediaCall, chunks: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
    const { request, status } = running;
    let isSettled = false;
    const settleAs = async (outcome: Outcome, error?: GatewayError): Promise<void> => {
      if (isSettled) return;
      isSettled = true;
      const end = { outcome, status: status ?? 200, units: request.units, tokens: null, endedAt: clock.now() };
      await settle(running, error ? { ...end, error } : end);
    };
    try {
      yield* chunks;
      await settleAs('ok');
    } catch (cause) {
      if (!(cause instanceof VendorError)) throw cause;
      // The caller left: `finally` settles, and nobody is there to be told.
      if (cause.kind === 'aborted') return;
      reportToBreaker(request, cause);
      const error = asGatewayError(cause);
      await settleAs('interrupted', error);
      throw error;
    } finally {
      await chunks.return();
      await settleAs('client_left');
    }
  }

  /** Null: it answered. The caller's leaving never counts (lessons 19). */
  function reportToBreaker({ call, candidate }: MediaCallRequest, error: VendorError | null): void {
    const { projectId } = call.caller;
    if (error === null) breakers.recordSuccess(projectId, candidate.provider);
    else if (isProviderFailure(error)) breakers.recordFailure(projectId, candidate.provider);
    else if (classifyFailure(error) === 'rate_limited' && typeof error.retryAfterMs === 'number')
      breakers.coolDown(projectId, candidate.provider, clock.now() + error.retryAfterMs);
  }

  async function settle(running: RunningMediaCall, end: MediaEnd): Promise<void> {
    const { facts: metadata, result, content } = settleMediaCall(running, end);
    const settled = { facts: metadata, result: running.reservation.settle(result), content };
    await journal.settle(settled);
    logCall(logger, settled);
  }
}
