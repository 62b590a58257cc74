/** A call with nothing in it that SQL would refuse, and smaller versions of it for when the database refuses it all the same. */
import type { AssistantTurn, Attempt, CallContent, CallFacts, SettledCall } from '../core/call.ts';
import { noCorrelation } from '../core/call.ts';
import { makeStorable } from '../core/postgres-text.ts';

/** Longest correlation value and source that are kept, in Unicode code points (decisions 5). */
const maxCodePoints = 256;

/** All texts but the request's bytes made storable; those are read by memory, which does the same with what it takes out of them. */
export function makeCallStorable({ facts, result, content }: SettledCall): SettledCall {
  return {
    facts: storableFacts(facts),
    result: {
      ...result,
      code: storableOrNull(result.code),
      model: storableOrNull(result.model),
      attempts: result.attempts.map(storableAttempt),
    },
    content: content === null ? null : storableContent(content),
  };
}

/** The money alone: no content, and nothing that a caller wrote freely. Its ids, models and numbers stay. */
export function withoutText({ facts, result }: SettledCall): SettledCall {
  const memory = { ...facts.memory, subject: null };
  return { facts: { ...facts, memory, correlation: noCorrelation, plan: [] }, result, content: null };
}

function storableFacts(facts: CallFacts): CallFacts {
  const { memory, correlation } = facts;
  return {
    ...facts,
    keyPrefix: makeStorable(facts.keyPrefix),
    source: makeStorable(facts.source, maxCodePoints),
    modelAsked: makeStorable(facts.modelAsked),
    memory: { ...memory, subject: storableOrNull(memory.subject) },
    correlation: {
      ...correlation,
      taskId: cutOrNull(correlation.taskId),
      turnId: cutOrNull(correlation.turnId),
      agentId: cutOrNull(correlation.agentId),
      triggerKind: cutOrNull(correlation.triggerKind),
      triggerDetail: cutOrNull(correlation.triggerDetail),
    },
    plan: facts.plan.map((line) => ({ ...line, model: makeStorable(line.model), skipped: storableOrNull(line.skipped) })),
  };
}

function storableAttempt(attempt: Attempt): Attempt {
  return { ...attempt, provider: makeStorable(attempt.provider), model: makeStorable(attempt.model) };
}

function storableContent({ answer, ...content }: CallContent): CallContent {
  return { ...content, answer: answer === null ? null : storableAnswer(answer) };
}

function storableAnswer({ text, toolCalls }: AssistantTurn): AssistantTurn {
  return {
    text: makeStorable(text),
    toolCalls: toolCalls.map((tool) => ({ name: makeStorable(tool.name), arguments: makeStorable(tool.arguments) })),
  };
}

function storableOrNull(text: string | null): string | null {
  return text === null ? null : makeStorable(text);
}

function cutOrNull(text: string | null): string | null {
  return text === null ? null : makeStorable(text, maxCodePoints);
}
