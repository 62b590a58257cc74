/**
 * Decides which error the caller gets if no model in the chain responded. On text routes, only this module turns a
 * VendorError into a gateway error.
 */
import type { Outcome } from '../../core/call.ts';
import { type ErrorMembers, type GatewayError, gatewayError, VendorError, vendorMembers } from '../../core/errors.ts';
import type { AttemptFailure, ChainResult } from '../../failover/chain.ts';
import {
  classifyFailure,
  isContextOverflow,
  isFinalRefusal,
  isLastingFailure,
  lastErrorsOf,
  retryDelay,
  waitOfLimitedChain,
} from '../../failover/classify-failure.ts';
import type { CallCancellation } from './cancellation.ts';

export interface ChainFailure {
  readonly error: GatewayError;
  readonly outcome: Outcome;
}

type FailedChain = Exclude<ChainResult<unknown>, { kind: 'responded' }>;

export function toChainFailure(result: FailedChain, cancellation: CallCancellation): ChainFailure {
  const { failures } = result;
  switch (result.kind) {
    case 'exhausted':
      return deadlineForbidsRetry(failures, cancellation) ? cancelled(failures, null, cancellation) : exhausted(failures);
    case 'aborted':
      return interruptedByShutdown(result.cut) ?? cancelled(failures, result.cut, cancellation);
  }
}

/**
 * Returns true if the deadline is the only reason why we don't retry the last model. This model was rate limited,
 * hasn't been retried yet, and asked us to wait until after the deadline.
 */
function deadlineForbidsRetry(failures: readonly AttemptFailure[], cancellation: CallCancellation): boolean {
  const last = lastSentFailure(failures);
  if (!last || classifyFailure(last.error) !== 'rate_limited') return false;
  const wasRetry = failures.some((failure) => failure !== last && failure.candidate === last.candidate);
  return !wasRetry && retryDelay(last.error, null) !== null && retryDelay(last.error, cancellation.remainingMs()) === null;
}

function exhausted(failures: readonly AttemptFailure[]): ChainFailure {
  const refusal = refusalOf(failures);
  if (refusal) return { error: refusal, outcome: 'refused' };
  const last = lastSentFailure(failures);
  return upstreamFailed(failures, last ? describeFailure(last) : 'every model of the plan failed', 'failed');
}

/**
 * If every model that we tried rejected the request, returns an error with the first vendor's status and message.
 * Otherwise, returns null. Only the last failure of each model counts, so a model may have sent a 429 before it
 * rejected the request.
 */
export function refusalOf(failures: readonly AttemptFailure[]): GatewayError | null {
  const errors = lastErrorsOf(failures);
  const error = errors.find(({ isUntranslatable }) => !isUntranslatable) ?? errors[0];
  if (!error || !errors.every(isFinalRefusal)) return null;
  const message = error.vendorMessage || error.message;
  const members: ErrorMembers = { ...vendorMembers(error), ...(isContextOverflow(error) && { hint: overflowHint }) };
  // If one of the errors is a 404, use it as the cause so that `isContentRejected` returns false. The call may succeed
  // later, once the missing model exists.
  const cause = errors.find((other) => classifyFailure(other) !== 'refused') ?? error;
  return gatewayError('upstream_refused', { message, status: error.status ?? 400, cause, members });
}

/**
 * Returns true if an internal call failed because of its content, i.e. a content rule blocked it or every model
 * rejected it. A retry would fail again.
 */
export function isContentRejected({ code, cause }: GatewayError): boolean {
  if (code === 'guardrail_blocked') return true;
  return code === 'upstream_refused' && cause instanceof VendorError && classifyFailure(cause) === 'refused';
}

/**
 * Clients look for phrases like these to find out that the prompt is too long. LangChain for Anthropic and Claude Code
 * look for the first half, and LiteLLM for the second. We can't rely on the vendor's own phrase, because clients of the
 * other dialect don't look for it.
 */
const overflowHint = "the prompt is too long: it is over the model's maximum context limit, and no larger model is left in the plan";

/** Returns the error for the caller if a shutdown cut the attempt off, and null otherwise. */
function interruptedByShutdown(cut: AttemptFailure | null): ChainFailure | null {
  if (cut?.error.kind !== 'stopped') return null;
  return { error: gatewayError('upstream_failed', { message: describeFailure(cut), status: 503, cause: cut.error }), outcome: 'unknown' };
}

function cancelled(failures: readonly AttemptFailure[], cut: AttemptFailure | null, cancellation: CallCancellation): ChainFailure {
  if (cancellation.cancelledBy() === 'client') {
    return { error: gatewayError('upstream_failed', { message: 'the caller disconnected' }), outcome: 'client_left' };
  }
  const last = lastSentFailure(failures);
  const message = `client deadline exceeded${last ? `; last attempt: ${describeFailure(last)}` : ''}`;
  // If the deadline cut off an attempt, don't send a `retry-after`, because an immediate retry may well finish in time.
  return upstreamFailed(failures, message, 'deadline', cut === null);
}

/**
 * Returns a 503 with `retry-after` if the vendors sent 429s, a 503 if we couldn't reach any vendor, and a 502 for
 * everything else.
 */
function upstreamFailed(failures: readonly AttemptFailure[], message: string, outcome: Outcome, mayNameWait = true): ChainFailure {
  const waitMs = mayNameWait ? waitOfLimitedChain(failures) : null;
  const isUnavailable = waitMs !== null || failures.every(({ error }) => error.kind === 'connect');
  return {
    error: gatewayError('upstream_failed', {
      message,
      status: isUnavailable ? 503 : 502,
      cause: lastSentFailure(failures)?.error,
      ...(waitMs !== null && { retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1_000)) }),
      ...(isLastingFailure(failures) && { shouldRetry: false }),
    }),
    outcome,
  };
}

/**
 * Returns the last failure for which we called a vendor. If we never called one, because no vendor's dialect can
 * express the request, returns the last failure.
 */
function lastSentFailure(failures: readonly AttemptFailure[]): AttemptFailure | undefined {
  return failures.findLast(({ error }) => !error.isUntranslatable) ?? failures.at(-1);
}

function describeFailure({ candidate, error }: AttemptFailure): string {
  return `${candidate.id}: ${error.message}`;
}
