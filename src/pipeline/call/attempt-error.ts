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
 * Returns the request's text, so that we can strip quotations of it from the vendor's message. If it returns null we
 * can't do that, and drop the message.
 */
export type ReadRequest = () => string | null;

/** We cut off longer messages before we search them, because the search takes time for each word. */
const maxSearchedLength = 600;
const maxMessageLength = 500;
/**
 * For these kinds of errors, the gateway writes the message itself. The messages of all other kinds can contain text
 * from the vendor.
 */
const hasOwnMessage: ReadonlySet<VendorErrorKind> = new Set(['connect', 'timeout', 'stopped', 'aborted']);
/**
 * Types and codes should look like identifiers. We leave out any other text, because the vendor may be quoting
 * something.
 */
const identifier = /^[\w.:/-]{1,64}$/;

/**
 * Logs a failed attempt, and returns a copy of it that includes the reason. If the attempt only ended because the
 * caller disconnected, that's not a failure, so we return it unchanged and don't log it.
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
 * Returns a function that reads the text of the request. For internal calls, this function returns null. We store their
 * text elsewhere, where an erasure can find it, so we can't keep anything here that might quote it.
 */
export function requestReader({ body, isInternal }: Call): ReadRequest {
  return () => (isInternal ? null : readRequestText(body));
}

function toAttemptError({ outcome }: Attempt, cause: unknown, readRequest: ReadRequest): AttemptError {
  if (outcome === 'deadline') return { reason: 'deadline', type: null, code: null, message: "the call's deadline has passed" };
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
  const excerpt = maskPrivateData(removeEchoes(cutForSearch(text), request));
  return excerpt.length > maxMessageLength ? `${excerpt.slice(0, maxMessageLength - 1)}…` : excerpt || null;
}

/** A card number has up to eight groups of digits, and nothing else that we mask has more parts. */
const maxTries = 12;

/** Shortens a text for the search. Never cuts through anything private, because we wouldn't recognize a part of it. */
function cutForSearch(text: string): string {
  if (text.length <= maxSearchedLength) return text;
  const masked = maskPrivateData(text);
  const ends = [...text.slice(0, maxSearchedLength).matchAll(/[\s"'(),;<>[\]{}]/g)].map(({ index }) => index);
  const isBetween = (end: number): boolean => maskPrivateData(text.slice(0, end)) + maskPrivateData(text.slice(end)) === masked;
  return text.slice(0, ends.slice(-maxTries).findLast(isBetween) ?? 0);
}
