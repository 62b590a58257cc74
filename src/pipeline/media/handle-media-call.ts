/**
 * Handles a media call: one attempt at one provider, without cache and failover. The call is in the journal before it is sent, and is settled
 * however it ends. See docs/architecture/media.md.
 */
import type { Admission } from '../../ceilings/admission.ts';
import type { Limits } from '../../ceilings/counters.ts';
import { hasCostCeiling } from '../../ceilings/counters.ts';
import type { Caller, MediaCall, Outcome } from '../../core/call.ts';
import { type GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import type { Tokens, Units } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import type { Breakers } from '../../failover/breaker.ts';

import type { Journal } from '../../journal/journal.ts';
import type { Logger } from '../../observability/logger.ts';
import type { CallCancellation } from '../call/cancellation.ts';
import { createRuleEnforcer } from '../call/enforce-rules.ts';
import { limitsFor } from '../call/limits.ts';
import type { ProjectContext } from '../call/project-context.ts';
import { reportAttempt } from '../call/report-attempt.ts';
import { logCall } from '../call/settle.ts';
import type { MediaCallRequest, MediaEnd, RunningMediaCall } from './media-record.ts';
import { asGatewayError, isRefusal, mediaUsageBounds, settleMediaCall, toMediaCallMetadata } from './media-record.ts';

export interface MediaDeps {
  /** Ceilings of a key; a promise only when they are not in memory. Throws `limits_unavailable`. */
  readonly getKeyCeilings: (caller: Caller) => Limits['key'] | Promise<Limits['key']>;
  readonly admission: Admission;
  readonly breakers: Breakers;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The result of a plain response. */
export interface MediaResult<Value> {
  readonly value: Value;
  readonly status: number;
  readonly units: Units;
  /** Null when the vendor reported none. */
  readonly tokens: Tokens | null;
}

/** The stream to the caller. `chunks` must be read to the end or returned: only then is the call settled. */
export interface MediaStream {
  readonly model: string;
  readonly contentType: string;
  readonly chunks: AsyncGenerator<Buffer, void>;
}

/** A vendor's response stream that has begun. `chunks` throws VendorError; returning it early ends the vendor's request. */
export interface VendorStream {
  readonly status: number;
  readonly contentType: string;
  readonly chunks: AsyncGenerator<Buffer, void>;
}

export interface MediaCalls {
  /** Reports whether a cost ceiling applies, so that models without a price must be skipped. Throws `limits_unavailable`. */
  requiresPrice(call: MediaCall, project: ProjectContext): Promise<boolean>;
  /** Handles a call with a plain response. Throws GatewayError; a call that reached its vendor has been recorded by then. */
  execute<Value>(request: MediaCallRequest, send: () => Promise<MediaResult<Value>>): Promise<Value>;
  /** Handles a call with a streamed response; `cancellation` ends it when the caller disconnects. Throws as `execute` until the stream begins. */
  stream(request: MediaCallRequest, cancellation: CallCancellation, send: () => Promise<VendorStream>): Promise<MediaStream>;
}

export function createMediaCalls({ getKeyCeilings, admission, breakers, journal, clock, logger }: MediaDeps): MediaCalls {
  const { checkTexts } = createRuleEnforcer({ logger });

  return {
    requiresPrice: async (call, project) => hasCostCeiling(await readLimits(call, project)),
    async execute(request, send) {
      const running = await open(request);
      const { status, units, tokens, value } = await send().catch((error: unknown) => fail(running, error, null));
      report(request, null);
      const endedAt = clock.now();
      const respondingCall = { ...running, firstByteMs: endedAt - running.start.startedAt };
      await settle(respondingCall, { outcome: 'ok', status, units, tokens, endedAt });
      return value;
    },
    async stream(request, cancellation, send) {
      const running = await open(request);
      const { status, contentType, chunks } = await send().catch((error: unknown) => fail(running, error, cancellation));
      report(request, null);
      const respondingCall = { ...running, status, firstByteMs: clock.now() - running.start.startedAt };
      return { model: request.candidate.id, contentType, chunks: deliver(respondingCall, chunks) };
    },
  };

  async function readLimits(call: MediaCall, project: ProjectContext): Promise<Limits> {
    return limitsFor(call, project, await getKeyCeilings(call.caller));
  }

  /** Admits the call and writes it to the journal. Leaves no record when it throws. */
  async function open(request: MediaCallRequest): Promise<RunningMediaCall> {
    const { call, project, candidate, texts } = request;
    if (!project.mayCall) throw gatewayError('subscription_required');
    if (project.rules.input) await checkTexts(call, project.rules.input, texts);
    const limits = await readLimits(call, project);
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
   * Settles a call without a response and throws the caller's error. A call whose caller disconnected, or which was cut off by a shutdown, is
   * charged, because the vendor may finish and bill it.
   */
  async function fail(running: RunningMediaCall, cause: unknown, cancellation: CallCancellation | null): Promise<never> {
    const { request } = running;
    const error = asGatewayError(cause);
    const hasLeft = cancellation?.cancelledBy() === 'client';
    if (cause instanceof VendorError) report(request, cause);
    const status = cause instanceof VendorError ? cause.status : null;
    const isCut = cause instanceof VendorError && cause.kind === 'stopped';
    // The vendor accepted the job, but it could not be stored (video/start-video.ts).
    const isUnrecorded = error.code === 'budget_unavailable';
    const end =
      hasLeft || isCut || isUnrecorded
        ? ({ outcome: hasLeft ? 'client_left' : 'unknown', units: request.units, tokens: null } as const)
        : ({ outcome: isRefusal(cause) ? 'refused' : 'failed', units: {}, tokens: noTokens } as const);
    await settle({ ...running, status }, { ...end, error, status: hasLeft ? 499 : error.status, endedAt: clock.now() });
    throw error;
  }

  /** Relays the chunks of a stream and settles the call however it ends: complete, broken by the vendor, or abandoned by the caller. */
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
      // The caller disconnected: `finally` settles the call.
      if (cause.kind === 'aborted') return;
      report(request, cause);
      const error = asGatewayError(cause);
      await settleAs('interrupted', error);
      throw error;
    } finally {
      await chunks.return();
      await settleAs('client_left');
    }
  }

  function report({ call, candidate }: MediaCallRequest, error: VendorError | null): void {
    reportAttempt(breakers, { projectId: call.caller.projectId, provider: candidate.provider, error, now: clock.now() });
  }

  /** Converts the reservation to usage and records the call. */
  async function settle(running: RunningMediaCall, end: MediaEnd): Promise<void> {
    const call = settleMediaCall(running, end);
    const settled = { ...call, result: running.reservation.settle(call.result) };
    await journal.settle(settled);
    logCall(logger, settled);
  }
}
