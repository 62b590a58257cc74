/**
 * The names of all spans and attributes (docs/traces.md). The ones that begin with `gen_ai`, `http` and `error` come
 * from OpenTelemetry. Its GenAI conventions are still in development, so we may have to change some. Values are ids,
 * counts, codes, or names from the configuration, but never text from callers or vendors.
 */

export const spanNames = {
  call: 'call',
  recall: 'search_memory',
  journalOpen: 'journal open',
  journalSettle: 'journal settle',
  drain: 'journal drain',
  store: 'store call',
  /** These three span names are followed by the name of the workflow or activity. */
  outbox: 'outbox',
  workflow: 'workflow',
  activity: 'activity',
} as const;

export const attributes = {
  httpMethod: 'http.request.method',
  httpRoute: 'http.route',
  httpStatus: 'http.response.status_code',
  errorType: 'error.type',
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  requestModel: 'gen_ai.request.model',
  inputTokens: 'gen_ai.usage.input_tokens',
  cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
  cacheWriteTokens: 'gen_ai.usage.cache_write.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  timeToFirstChunk: 'gen_ai.response.time_to_first_chunk',
  callId: 'gateway.call.id',
  projectId: 'gateway.project.id',
  outcome: 'gateway.outcome',
  model: 'gateway.model',
  cache: 'gateway.cache',
  costNanos: 'gateway.cost_nanos',
  estimated: 'gateway.estimated',
  attempt: 'gateway.attempt',
  member: 'gateway.attempt.member',
  waitMs: 'gateway.attempt.wait_ms',
  calls: 'gateway.calls',
  workflowId: 'temporalWorkflowID',
  runId: 'temporalRunID',
  tries: 'gateway.tries',
} as const;
