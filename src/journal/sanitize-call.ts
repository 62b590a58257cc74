/**
 * Removes characters from calls that PostgreSQL can't store, and strips the text from calls that the database rejects
 * anyway.
 */
import {
  type AssistantTurn,
  type Attempt,
  type AttemptError,
  type CallMetadata,
  type CallResult,
  type Correlation,
  noCorrelation,
  type PlanEntry,
  type SettledCall,
} from '../core/call.ts';
import { toPostgresText } from '../core/postgres-text.ts';
import { redactVendorMessages } from '../core/redact-subject.ts';

/** The maximum length of correlation values and application names, in Unicode code points. */
const maxCodePoints = 256;

/**
 * Sanitizes all texts except the bytes of the request. (The memory code sanitizes what it extracts from the request.)
 * Hardly any call needs changes, so if nothing changes we return the same objects instead of copies.
 */
export function sanitizeCall(call: SettledCall): SettledCall {
  const metadata = sanitizeMetadata(call.metadata);
  const result = sanitizeResult(call.result);
  const response = call.content?.response ? sanitizeResponse(call.content.response) : null;
  const isResponseChanged = call.content !== null && call.content.response !== response;
  if (metadata === call.metadata && result === call.result && !isResponseChanged) return call;
  return { metadata, result, content: isResponseChanged ? { ...call.content, response } : call.content };
}

/** Removes the content, and any free text from the caller and from vendors. Only ids, models and numbers are left. */
export function stripText({ metadata, result }: SettledCall): SettledCall {
  const memory = { ...metadata.memory, subject: null };
  return { metadata: { ...metadata, memory, correlation: noCorrelation, plan: [] }, result: redactVendorMessages(result), content: null };
}

function sanitizeMetadata(metadata: CallMetadata): CallMetadata {
  const keyPrefix = toPostgresText(metadata.keyPrefix);
  const source = toPostgresText(metadata.source, maxCodePoints);
  const modelAsked = toPostgresText(metadata.modelAsked);
  const subject = sanitizeOrNull(metadata.memory.subject);
  const memory = subject === metadata.memory.subject ? metadata.memory : { ...metadata.memory, subject };
  const correlation = sanitizeCorrelation(metadata.correlation);
  const plan = sanitizeEach(metadata.plan, sanitizePlanEntry);
  const isSame =
    keyPrefix === metadata.keyPrefix &&
    source === metadata.source &&
    modelAsked === metadata.modelAsked &&
    memory === metadata.memory &&
    correlation === metadata.correlation &&
    plan === metadata.plan;
  return isSame ? metadata : { ...metadata, keyPrefix, source, modelAsked, memory, correlation, plan };
}

function sanitizeCorrelation(correlation: Correlation): Correlation {
  const taskId = truncateOrNull(correlation.taskId);
  const turnId = truncateOrNull(correlation.turnId);
  const agentId = truncateOrNull(correlation.agentId);
  const triggerKind = truncateOrNull(correlation.triggerKind);
  const triggerDetail = truncateOrNull(correlation.triggerDetail);
  const isSame =
    taskId === correlation.taskId &&
    turnId === correlation.turnId &&
    agentId === correlation.agentId &&
    triggerKind === correlation.triggerKind &&
    triggerDetail === correlation.triggerDetail;
  return isSame ? correlation : { ...correlation, taskId, turnId, agentId, triggerKind, triggerDetail };
}

function sanitizePlanEntry(entry: PlanEntry): PlanEntry {
  const model = toPostgresText(entry.model);
  const skipped = sanitizeOrNull(entry.skipped);
  return model === entry.model && skipped === entry.skipped ? entry : { ...entry, model, skipped };
}

function sanitizeResult(result: CallResult): CallResult {
  const code = sanitizeOrNull(result.code);
  const model = sanitizeOrNull(result.model);
  const attempts = sanitizeEach(result.attempts, sanitizeAttempt);
  return code === result.code && model === result.model && attempts === result.attempts ? result : { ...result, code, model, attempts };
}

function sanitizeAttempt(attempt: Attempt): Attempt {
  const provider = toPostgresText(attempt.provider);
  const model = toPostgresText(attempt.model);
  const error = attempt.error && sanitizeError(attempt.error);
  if (provider === attempt.provider && model === attempt.model && error === attempt.error) return attempt;
  return { ...attempt, provider, model, ...(error && { error }) };
}

function sanitizeError(error: AttemptError): AttemptError {
  const reason = toPostgresText(error.reason);
  const type = sanitizeOrNull(error.type);
  const code = sanitizeOrNull(error.code);
  const message = sanitizeOrNull(error.message);
  const isSame = reason === error.reason && type === error.type && code === error.code && message === error.message;
  return isSame ? error : { reason, type, code, message };
}

function sanitizeResponse(response: AssistantTurn): AssistantTurn {
  const text = toPostgresText(response.text);
  const toolCalls = sanitizeEach(response.toolCalls, sanitizeToolCall);
  return text === response.text && toolCalls === response.toolCalls ? response : { text, toolCalls };
}

function sanitizeToolCall(tool: AssistantTurn['toolCalls'][number]): AssistantTurn['toolCalls'][number] {
  const name = toPostgresText(tool.name);
  const text = toPostgresText(tool.arguments);
  return name === tool.name && text === tool.arguments ? tool : { name, arguments: text };
}

/** Sanitizes each item. If nothing has to change, returns the same array. */
function sanitizeEach<Item>(items: readonly Item[], sanitize: (item: Item) => Item): readonly Item[] {
  for (const item of items) if (sanitize(item) !== item) return items.map(sanitize);
  return items;
}

function sanitizeOrNull(text: string | null): string | null {
  return text === null ? null : toPostgresText(text);
}

function truncateOrNull(text: string | null): string | null {
  return text === null ? null : toPostgresText(text, maxCodePoints);
}
