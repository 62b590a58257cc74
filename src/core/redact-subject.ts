/** A call as it is kept once its subject is erased (shapes 21): model, tokens, cost and time stay; text, subject and correlation text go. */
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
