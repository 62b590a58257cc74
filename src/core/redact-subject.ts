/** Redacts calls of an erased subject: model, tokens, cost and times stay, text, subject and correlation texts are removed. */
import type { CallMetadata, SettledCall } from './call.ts';
import { noCorrelation } from './call.ts';

export function redactSubject({ metadata, result }: SettledCall): SettledCall {
  return { metadata: redactSubjectMetadata(metadata), result, content: null };
}

export function redactSubjectMetadata(metadata: CallMetadata): CallMetadata {
  const { iteration, distilSaved } = metadata.correlation;
  return {
    ...metadata,
    memory: { ...metadata.memory, subject: null },
    correlation: { ...noCorrelation, iteration, distilSaved },
  };
}
