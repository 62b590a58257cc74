/**
 * Describes why an attempt failed, for its record and for the log. The record contains an excerpt of the vendor's
 * message. We mask private data in it and remove anything that the vendor quotes from the request. The log contains no
 * message at all.
 */
import type { Attempt, AttemptError, Call, MediaCall } from '../../core/call.ts';
import { errorCode } from '../../core/error-messages.ts';
import { VendorError, type VendorErrorKind } from '../../core/errors.ts';
import { asString } from '../../core/json/narrow.ts';
import { maskPrivateData } from '../../guardrails/content-classes.ts';
import { readRequestText, removeEchoes } from '../../guardrails/echoed-text.ts';
import type { Logger } from '../../observability/logger.ts';

/**
 * Returns the text of the request. Returns null if we have no text to compare with, so that we don't keep the vendor's
 * message.
 */
export type ReadRequest = () => string | null;

/** We cut off longer messages before we search them, because the search takes time for each word. */
const maxSearchedLength = 600;
const maxMessageLength = 500;
/** Errors of these kinds have fixed messages of our own. The messages of the other kinds may quote the vendor. */
const hasOwnMessage: ReadonlySet<VendorErrorKind> = new Set(['connect', 'timeout', 'stopped', 'aborted']);
/**
 * Types and codes should look like identifiers. We leave out any other text, because the vendor may be quoting
 * something.
 */
const identifier = /^[\w.:/-]{1,64}$/;

/**
 * Logs the failure of an attempt, and returns the attempt with the reason. Returns it unchanged if its caller left,
 * because nothing failed then.
 */
export function recordFailure(logger: Logger, call: Call | MediaCall, attempt: Attempt, cause: unknown, readRequest: ReadRequest): Attempt {
  if (attempt.outcome === 'client_left') return attempt;
  const error = toAttemptError(attempt, cause, readRequest);
  const { n, provider, model, member, status, outcome } = attempt;
  const isFault = outcome === 'failed' || outcome === 'interrupted';
  logger[isFault ? 'warn' : 'info'](
    {
      call: call.id,
      project: call.projectSlug,
      provider,
      model: `${provider}/${model}`,
      ...(member !== undefined && { member }),
      attempt: n,
      outcome,
      status,
      reason: error.reason,
      upstreamType: error.type,
      upstreamCode: error.code,
    },
    'attempt failed',
  );
  return { ...attempt, error };
}

/**
 * We store the text of internal calls elsewhere, where an erasure can find it, so we must not keep anything here that
 * might quote it.
 */
export function requestReader({ body, isInternal }: Call): ReadRequest {
  return () => (isInternal ? null : readRequestText(body));
}

function toAttemptError({ outcome }: Attempt, cause: unknown, readRequest: ReadRequest): AttemptError {
  if (outcome === 'deadline') return { reason: 'deadline', type: null, code: null, message: 'the deadline of the call passed' };
  if (!(cause instanceof VendorError)) return { reason: 'internal', type: null, code: null, message: null };
  const { kind, detail, vendorMessage, report, message } = cause;
  const text = detail ?? vendorMessage ?? (kind === 'status' ? null : message);
  return {
    reason: kind,
    type: toIdentifier(report.type),
    code: toIdentifier(report.code ?? asString(errorCode(cause.cause))),
    message: text === null || hasOwnMessage.has(kind) ? text : toExcerpt(text, readRequest()),
  };
}

function toIdentifier(text: string | null): string | null {
  return text !== null && identifier.test(text) ? text : null;
}

function toExcerpt(text: string, request: string | null): string | null {
  if (request === null) return null;
  const excerpt = maskPrivateData(removeEchoes(text.slice(0, maxSearchedLength), request));
  return excerpt.length > maxMessageLength ? `${excerpt.slice(0, maxMessageLength - 1)}…` : excerpt || null;
}
