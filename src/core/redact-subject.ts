/**
 * Redacts calls of an erased subject. We keep the model, tokens, cost and times, and remove the text, the subject, the
 * correlation texts and messages of vendors.
 */
import type { CallMetadata, CallResult, SettledCall } from './call.ts';
import { noCorrelation } from './call.ts';

export function redactSubject({ metadata, result }: SettledCall): SettledCall {
  return { metadata: redactSubjectMetadata(metadata), result: redactVendorMessages(result), content: null };
}

/** Removes the messages of vendors, but keeps the reason, type and code. */
export function redactVendorMessages(result: CallResult): CallResult {
  if (!result.attempts.some(({ error }) => error)) return result;
  const attempts = result.attempts.map((attempt) => (attempt.error ? { ...attempt, error: { ...attempt.error, message: null } } : attempt));
  return { ...result, attempts };
}

export function redactSubjectMetadata(metadata: CallMetadata): CallMetadata {
  const { iteration, distilSaved } = metadata.correlation;
  return {
    ...metadata,
    memory: { ...metadata.memory, subject: null },
    correlation: { ...noCorrelation, iteration, distilSaved },
  };
}
