/**
 * Defines all metrics, with their names, help texts and labels, and how to combine the values of several processes.
 * docs/metrics.md lists them, and a test compares the two. The names follow Prometheus's conventions, and
 * OpenTelemetry's conventions for generative AI where there are any. Every label has a closed set of values.
 */

export interface MetricDefinition {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly aggregator: 'sum' | 'max' | 'min';
}

const counter = (name: string, help: string, labels: readonly string[] = []): MetricDefinition => ({
  name,
  help,
  type: 'counter',
  labels,
  aggregator: 'sum',
});
const histogram = (name: string, help: string, labels: readonly string[]): MetricDefinition => ({
  name,
  help,
  type: 'histogram',
  labels,
  aggregator: 'sum',
});
const gauge = (
  name: string,
  help: string,
  { labels = [], aggregator = 'sum' }: { labels?: readonly string[]; aggregator?: MetricDefinition['aggregator'] } = {},
): MetricDefinition => ({ name, help, type: 'gauge', labels, aggregator });

const model = ['provider', 'model'];
const genAi = ['gen_ai_operation_name', 'gen_ai_provider_name', 'gen_ai_request_model'];

export const metrics = {
  calls: counter('gateway_calls_total', 'Recorded calls, by outcome.', ['route', 'outcome']),
  callDuration: histogram(
    'gateway_call_duration_seconds',
    'Time from the request until the call is recorded. Only counts successful calls that were not answered from the cache.',
    ['route'],
  ),
  callFirstChunk: histogram('gateway_call_first_chunk_seconds', 'Time from the request to the first chunk of a streamed response.', [
    'route',
  ]),
  callsInFlight: gauge('gateway_calls_in_flight', 'Calls that were sent to a vendor and are not settled yet.'),
  uncheckedRefusals: counter(
    'gateway_unchecked_refusals_total',
    'Calls refused because the quota store was down. The reason is policy if on_budget_store_down refuses such calls, or exhausted if no more calls may pass unmetered.',
    ['reason'],
  ),
  refusedCalls: counter(
    'gateway_refused_calls_total',
    'Refused calls of known keys. A call was recorded, only counted because its key was refused too often in a minute, or lost because the database was unavailable for too long.',
    ['kept'],
  ),
  unmeteredCalls: counter('gateway_unmetered_calls_total', 'Calls admitted without checking ceilings because the quota store was down.'),
  errorResponses: counter('gateway_error_responses_total', 'Error responses from all routes, by error code.', ['code']),
  bodyMemory: gauge('gateway_body_memory_bytes', 'Memory that request bodies take up.'),
  bodyMemoryLimit: gauge('gateway_body_memory_limit_bytes', 'Maximum memory for request bodies (GATEWAY_BODY_MEMORY_MIB).'),

  attempts: counter('gateway_attempts_total', 'Requests to vendors, by outcome.', [...model, 'outcome']),
  cost: counter('gateway_cost_usd_total', 'Cost of requests to vendors, in US dollars.', model),
  unpricedAttempts: counter(
    'gateway_unpriced_attempts_total',
    'Requests to vendors whose cost is unknown because the model has no price.',
    model,
  ),
  inferenceDuration: histogram('gen_ai_client_inference_duration_seconds', 'Duration of successful requests to vendors.', genAi),
  inferenceFirstChunk: histogram(
    'gen_ai_client_inference_time_to_first_chunk_seconds',
    'Time from the start of a streamed request to a vendor until its first chunk.',
    genAi,
  ),
  inputTokens: counter('gen_ai_client_inference_usage_input_tokens_total', 'Input tokens, including cached ones.', genAi),
  outputTokens: counter('gen_ai_client_inference_usage_output_tokens_total', 'Output tokens.', genAi),
  cacheReadTokens: counter(
    'gen_ai_client_inference_usage_cache_read_input_tokens_total',
    "Input tokens read from the vendor's cache.",
    genAi,
  ),
  cacheWriteTokens: counter(
    'gen_ai_client_inference_usage_cache_write_input_tokens_total',
    "Input tokens written to the vendor's cache.",
    genAi,
  ),
  slowAttempts: counter(
    'gateway_slow_attempts_total',
    'Requests to vendors that wait far longer for their first content than is usual for the model. A request is counted while it is still waiting.',
    ['provider'],
  ),
  breakers: gauge(
    'gateway_breakers',
    'Circuit breakers that are not closed, or `cooling` after a 429. Each project has its own. Only members of a pool have the label `member`.',
    { labels: ['provider', 'member', 'state'] },
  ),
  memberRequests: gauge('gateway_member_requests', 'Requests in flight at the members of pools.', { labels: ['provider', 'member'] }),
  memberAttempts: counter('gateway_member_attempts_total', 'Requests to the members of pools, by how they ended.', [
    'provider',
    'member',
    'outcome',
  ]),
  memberInputTokens: counter(
    'gateway_member_input_tokens_total',
    "Input tokens of the members of pools. `cache` is `read` for tokens that were read from the vendor's cache, and otherwise `none`.",
    ['provider', 'member', 'cache'],
  ),
  identityRemaining: gauge(
    'gateway_identity_remaining_seconds',
    'Seconds until the credential of a cloud identity expires, or 0 if there is no valid one.',
    { labels: ['provider'], aggregator: 'min' },
  ),
  identityFailures: counter('gateway_identity_refresh_failures_total', 'Failed attempts to get a credential for a cloud identity.', [
    'provider',
  ]),
  vendorConnections: gauge('gateway_vendor_connections', 'Connections to vendors, by state.', { labels: ['state'] }),
  vendorRequestsWaiting: gauge('gateway_vendor_requests_waiting', 'Requests to vendors that are waiting for a connection.'),
  localEmbedderUp: gauge(
    'gateway_local_embedder_up',
    '1 while the local embedder responds. While it is 0, projects that use it search memory by text only.',
    {
      aggregator: 'min',
    },
  ),

  cacheLookups: counter('gateway_response_cache_lookups_total', 'Lookups in the response cache, by result.', ['result']),
  cacheEvictions: counter('gateway_response_cache_evictions_total', 'Responses evicted because the response cache was full.'),
  cacheEntries: gauge('gateway_response_cache_entries', 'Responses in the response cache.'),
  cacheBytes: gauge('gateway_response_cache_bytes', 'Size of the response cache.'),

  journalAccepting: gauge('gateway_journal_accepting', '1 while the journal can be written. While it is 0, every call is rejected.', {
    aggregator: 'min',
  }),
  journalSegments: gauge('gateway_journal_segments', 'Number of journal segment files.'),
  journalBytes: gauge('gateway_journal_bytes', 'Size of the journal segment files.'),
  journalBacklog: gauge('gateway_journal_backlog_bytes', 'Bytes in the journal that are not stored in the database yet.'),
  journalLag: gauge(
    'gateway_journal_lag_seconds',
    'Age of the oldest journal record that is not stored in the database yet, or 0 if there is none.',
    {
      aggregator: 'max',
    },
  ),
  parkedCalls: gauge('gateway_journal_parked_calls', 'Settled calls that are kept in memory because the journal cannot be written.'),
  lostCalls: counter(
    'gateway_journal_lost_calls_total',
    'Settled calls that were lost because the journal could not be written and the memory for parked calls was full.',
  ),
  storedCalls: counter(
    'gateway_stored_calls_total',
    "Calls stored in the database, either by the drain or by the recovery of a dead process's journal.",
    ['source'],
  ),
  rejectedCalls: counter('gateway_rejected_calls_total', 'Calls that the database rejected even without their text.', ['source']),
  quarantinedRecords: gauge('gateway_quarantined_records', "Files in the quarantine folder of this host's data directory.", {
    aggregator: 'max',
  }),

  // The following metrics come from the database, so they don't depend on which process reports them.
  databaseUp: gauge('gateway_database_up', '1 if the metrics that come from the database could be read for this scrape, otherwise 0.', {
    aggregator: 'min',
  }),
  outboxRows: gauge('gateway_outbox_rows', 'Outbox rows that are due, or that were postponed because Temporal rejected them.', {
    labels: ['state'],
    aggregator: 'max',
  }),
  outboxLag: gauge('gateway_outbox_lag_seconds', 'Age of the oldest outbox row that is due, or 0 if there is none.', { aggregator: 'max' }),
  conversationsKept: gauge(
    'gateway_conversations_kept_unlearned',
    'Conversations that are kept after their deletion period because memory has not learned from them yet. Stops counting at 10,000.',
    { aggregator: 'max' },
  ),
  promptsToConvert: gauge(
    'gateway_prompts_to_convert',
    'Prompts that an older release stored and that the daily cleanup still has to convert. An estimate above 10,000.',
    { aggregator: 'max' },
  ),
  learningBatches: gauge(
    'gateway_learning_batches',
    'Learning batches that are running, are failing because of unusable responses, are parked until a replay, or were stopped.',
    {
      labels: ['state'],
      aggregator: 'max',
    },
  ),
  learningLag: gauge(
    'gateway_learning_lag_seconds',
    'How long the oldest message that memory still has to learn from has been due, or 0 if none is due.',
    { aggregator: 'max' },
  ),
  ownerlessLeases: gauge('gateway_leases_without_owner', 'Leases in open windows whose process has no heartbeat any more.', {
    aggregator: 'max',
  }),
  ceilings: gauge('gateway_ceilings', 'Ceilings on calls and cost that are at least 90 % used (near) or used up (reached).', {
    labels: ['scope', 'ceiling', 'state'],
    aggregator: 'max',
  }),

  temporalUp: gauge('gateway_temporal_up', '1 while durable work is connected to Temporal. In a worker, 1 only while it also polls.', {
    aggregator: 'max',
  }),
  workerPolling: gauge('gateway_worker_polling', '1 while the worker in this process polls Temporal.', { aggregator: 'max' }),

  temporalBacklog: gauge('gateway_temporal_backlog_tasks', "Tasks waiting in Temporal's queue for a worker, by type.", {
    labels: ['type'],
    aggregator: 'max',
  }),
  temporalBacklogAge: gauge(
    'gateway_temporal_backlog_age_seconds',
    "How long the oldest task in Temporal's queue has been waiting for a worker, by type, or 0 if there is none.",
    { labels: ['type'], aggregator: 'max' },
  ),
  temporalFairness: gauge(
    'gateway_temporal_fairness',
    '1 if the Temporal server is recent enough to let projects take turns in the queue, otherwise 0.',
    { aggregator: 'min' },
  ),
  activityWait: histogram(
    'gateway_activity_schedule_to_start_seconds',
    'How long activities waited until the worker in this process started them.',
    [],
  ),

  cachedKeys: gauge(
    'gateway_cached_keys',
    'Virtual keys that are cached in memory. Only their calls can be served while the database is unavailable.',
    {
      aggregator: 'min',
    },
  ),
  databaseConnections: gauge('gateway_database_connections', 'Connections to the database, by pool and state.', {
    labels: ['pool', 'state'],
  }),
  databaseConnectionsLimit: gauge('gateway_database_connections_limit', 'Maximum number of connections to the database, by pool.', {
    labels: ['pool'],
  }),
  databaseWaiting: gauge('gateway_database_waiting_queries', 'Queries that are waiting for a connection to the database.', {
    labels: ['pool'],
  }),
  eventLoopLag: gauge('gateway_event_loop_lag_seconds', 'How late timers ran since the last scrape, as 99th percentile and maximum.', {
    labels: ['quantile'],
    aggregator: 'max',
  }),
  eventLoopUtilization: gauge(
    'gateway_event_loop_utilization_ratio',
    'Share of the time since the last scrape in which the event loop was busy.',
    {
      aggregator: 'max',
    },
  ),
  processes: gauge(
    'gateway_processes',
    'API processes on the port (GATEWAY_API_PROCESSES), by whether they are included in this scrape or did not respond.',
    {
      labels: ['state'],
    },
  ),
  cpu: counter('process_cpu_seconds_total', 'Total CPU time of the process.'),
  residentMemory: gauge('process_resident_memory_bytes', 'Resident memory of the process.'),
  heapUsed: gauge('nodejs_heap_size_used_bytes', 'Memory used by objects on the JavaScript heap.'),
  externalMemory: gauge('nodejs_external_memory_bytes', 'Memory used by buffers outside the JavaScript heap.'),
  openFiles: gauge('process_open_fds', 'Open file descriptors. Only available on Linux.', { aggregator: 'max' }),
} as const satisfies Record<string, MetricDefinition>;

export type MetricKey = keyof typeof metrics;
