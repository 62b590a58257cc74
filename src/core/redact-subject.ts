/**
 * Removes the text, the subject, the correlation values and vendor messages from calls of an erased subject. Model,
 * tokens, cost and times remain.
 */
import { type CallMetadata, type CallResult, noCorrelation, type SettledCall } from './call.ts';

export function redactSubject({ metadata, result }: SettledCall): SettledCall {
  return { metadata: redactSubjectMetadata(metadata), result: redactVendorMessages(result), content: null };
}

/**
 * Deletes the vendors' messages from a call's errors, which may quote the prompt, and keeps their kind, type and code.
 */
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
