/** Redacts calls of an erased subject: model, tokens, cost and times stay, text, subject and correlation texts are removed. */
import type { CallMetadata, SettledCall } from './call.ts';
import { noCorrelation } from './call.ts';

export function redactSubject({ facts, result }: SettledCall): SettledCall {
  return { facts: redactSubjectMetadata(facts), result, content: null };
}

export function redactSubjectMetadata(facts: CallMetadata): CallMetadata {
  const { iteration, distilSaved } = facts.correlation;
  return {
    ...facts,
    memory: { ...facts.memory, subject: null },
    correlation: { ...noCorrelation, iteration, distilSaved },
  };
}
