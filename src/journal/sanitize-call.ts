/** Removes from a call what PostgreSQL cannot store, and reduces a call that the database rejects all the same. */
import type { AssistantTurn, Attempt, CallContent, CallMetadata, SettledCall } from '../core/call.ts';
import { noCorrelation } from '../core/call.ts';
import { toPostgresText } from '../core/postgres-text.ts';

/** Bound of correlation values and of the source, in Unicode code points. */
const maxCodePoints = 256;

/** Sanitizes all texts except the bytes of the request; memory sanitizes what it extracts from these. */
export function sanitizeCall({ metadata, result, content }: SettledCall): SettledCall {
  return {
    metadata: sanitizeMetadata(metadata),
    result: {
      ...result,
      code: sanitizeOrNull(result.code),
      model: sanitizeOrNull(result.model),
      attempts: result.attempts.map(sanitizeAttempt),
    },
    content: content === null ? null : sanitizeContent(content),
  };
}

/** Keeps ids, models and numbers; removes the content and all free text of the caller. */
export function stripText({ metadata, result }: SettledCall): SettledCall {
  const memory = { ...metadata.memory, subject: null };
  return { metadata: { ...metadata, memory, correlation: noCorrelation, plan: [] }, result, content: null };
}

function sanitizeMetadata(metadata: CallMetadata): CallMetadata {
  const { memory, correlation } = metadata;
  return {
    ...metadata,
    keyPrefix: toPostgresText(metadata.keyPrefix),
    source: toPostgresText(metadata.source, maxCodePoints),
    modelAsked: toPostgresText(metadata.modelAsked),
    memory: { ...memory, subject: sanitizeOrNull(memory.subject) },
    correlation: {
      ...correlation,
      taskId: truncateOrNull(correlation.taskId),
      turnId: truncateOrNull(correlation.turnId),
      agentId: truncateOrNull(correlation.agentId),
      triggerKind: truncateOrNull(correlation.triggerKind),
      triggerDetail: truncateOrNull(correlation.triggerDetail),
    },
    plan: metadata.plan.map((line) => ({ ...line, model: toPostgresText(line.model), skipped: sanitizeOrNull(line.skipped) })),
  };
}

function sanitizeAttempt(attempt: Attempt): Attempt {
  return { ...attempt, provider: toPostgresText(attempt.provider), model: toPostgresText(attempt.model) };
}

function sanitizeContent({ response, ...content }: CallContent): CallContent {
  return { ...content, response: response && sanitizeResponse(response) };
}

function sanitizeResponse({ text, toolCalls }: AssistantTurn): AssistantTurn {
  return {
    text: toPostgresText(text),
    toolCalls: toolCalls.map((tool) => ({ name: toPostgresText(tool.name), arguments: toPostgresText(tool.arguments) })),
  };
}

function sanitizeOrNull(text: string | null): string | null {
  return text === null ? null : toPostgresText(text);
}

function truncateOrNull(text: string | null): string | null {
  return text === null ? null : toPostgresText(text, maxCodePoints);
}
