/**
 * Defines every metric with its name, help, labels, and how we combine the values of several processes. docs/metrics.md
 * lists them, and a test compares the two. Names follow the conventions of Prometheus, and those of OpenTelemetry for
 * generative AI where they exist. Every label has a closed set of values.
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
  // Calls.
  calls: counter('gateway_calls_total', 'Calls that were recorded, by how they ended.', ['route', 'outcome']),
  callDuration: histogram('gateway_call_duration_seconds', 'Time from the request to the record of successful calls, without cache hits.', [
    'route',
  ]),
  callFirstChunk: histogram('gateway_call_first_chunk_seconds', 'Time from the request to the first chunk of streams.', ['route']),
  callsInFlight: gauge('gateway_calls_in_flight', 'Calls that have been sent to a vendor and are not settled.'),
  uncheckedRefusals: counter(
    'gateway_unchecked_refusals_total',
    'Calls that were refused because the quota store was down: by on_budget_store_down (policy), or because no more may pass unmetered (exhausted).',
    ['reason'],
  ),
  unmeteredCalls: counter('gateway_unmetered_calls_total', 'Calls that were admitted without ceilings, because the quota store was down.'),
  errorResponses: counter('gateway_error_responses_total', 'Error responses of all routes, by error code.', ['code']),
  bodyMemory: gauge('gateway_body_memory_bytes', 'Bytes of request bodies that are held.'),
  bodyMemoryLimit: gauge('gateway_body_memory_limit_bytes', 'Limit of the bytes of request bodies (GATEWAY_BODY_MEMORY_MIB).'),

  // Requests to vendors.
  attempts: counter('gateway_attempts_total', 'Requests to vendors, by how they ended.', [...model, 'outcome']),
  cost: counter('gateway_cost_usd_total', 'Cost of attempts in US dollars.', model),
  unpricedAttempts: counter('gateway_unpriced_attempts_total', 'Attempts of unknown cost: the model has no price.', model),
  inferenceDuration: histogram('gen_ai_client_inference_duration_seconds', 'Duration of attempts that succeeded.', genAi),
  inferenceFirstChunk: histogram(
    'gen_ai_client_inference_time_to_first_chunk_seconds',
    "Time from the start of an attempt to its stream's first chunk.",
    genAi,
  ),
  inputTokens: counter('gen_ai_client_inference_usage_input_tokens_total', 'Input tokens, cached ones included.', genAi),
  outputTokens: counter('gen_ai_client_inference_usage_output_tokens_total', 'Output tokens.', genAi),
  cacheReadTokens: counter(
    'gen_ai_client_inference_usage_cache_read_input_tokens_total',
    "Input tokens that were read from the vendor's cache.",
    genAi,
  ),
  cacheWriteTokens: counter(
    'gen_ai_client_inference_usage_cache_write_input_tokens_total',
    "Input tokens that were written to the vendor's cache.",
    genAi,
  ),
  slowAttempts: counter(
    'gateway_slow_attempts_total',
    'Requests to vendors that have waited far longer for their first content than is usual for their model. Counted while they wait.',
    ['provider'],
  ),
  breakers: gauge('gateway_breakers', 'Circuit breakers of projects that are not closed.', { labels: ['provider', 'state'] }),
  identityRemaining: gauge(
    'gateway_identity_remaining_seconds',
    'Time until the credential of a cloud identity expires; 0 when there is no valid one.',
    { labels: ['provider'], aggregator: 'min' },
  ),
  identityFailures: counter('gateway_identity_refresh_failures_total', 'Failed attempts to get a credential of a cloud identity.', [
    'provider',
  ]),
  vendorConnections: gauge('gateway_vendor_connections', 'Connections to vendors.', { labels: ['state'] }),
  vendorRequestsWaiting: gauge('gateway_vendor_requests_waiting', 'Requests to vendors that wait for a connection.'),
  localEmbedderUp: gauge(
    'gateway_local_embedder_up',
    '1 while the local embedder responds; 0: what embeds with it searches memory by text.',
    {
      aggregator: 'min',
    },
  ),

  // Response cache.
  cacheLookups: counter('gateway_response_cache_lookups_total', 'Lookups in the response cache.', ['result']),
  cacheEvictions: counter('gateway_response_cache_evictions_total', 'Responses deleted to stay within the size of the cache.'),
  cacheEntries: gauge('gateway_response_cache_entries', 'Responses in the response cache.'),
  cacheBytes: gauge('gateway_response_cache_bytes', 'Size of the response cache.'),

  // Journal and drain.
  journalAccepting: gauge('gateway_journal_accepting', '1 while the journal can be written; 0: every call is rejected.', {
    aggregator: 'min',
  }),
  journalSegments: gauge('gateway_journal_segments', 'Segment files of the journal.'),
  journalBytes: gauge('gateway_journal_bytes', 'Size of the segment files.'),
  journalBacklog: gauge('gateway_journal_backlog_bytes', 'Bytes of the journal that are not in the database yet.'),
  journalLag: gauge('gateway_journal_lag_seconds', 'Age of the oldest record that is not in the database yet; 0 when there is none.', {
    aggregator: 'max',
  }),
  parkedCalls: gauge('gateway_journal_parked_calls', 'Settled calls that wait in memory, because the journal cannot be written.'),
  lostCalls: counter(
    'gateway_journal_lost_calls_total',
    'Settled calls that were lost: no disk, and the memory for parked calls was full.',
  ),
  storedCalls: counter(
    'gateway_stored_calls_total',
    "Calls that were stored, by the drain or by the recovery of a dead process's journal.",
    ['source'],
  ),
  rejectedCalls: counter('gateway_rejected_calls_total', 'Calls that the database rejected in every form.', ['source']),
  quarantinedRecords: gauge('gateway_quarantined_records', "Files in the quarantine of this host's data directory.", { aggregator: 'max' }),

  // State in the database, the same for all processes.
  databaseUp: gauge('gateway_database_up', '1 when the state in the database could be read for this scrape, 0 when it could not.', {
    aggregator: 'min',
  }),
  outboxRows: gauge('gateway_outbox_rows', 'Rows of the outbox: due, or rejected by Temporal and postponed.', {
    labels: ['state'],
    aggregator: 'max',
  }),
  outboxLag: gauge('gateway_outbox_lag_seconds', 'Age of the oldest due row of the outbox; 0 when there is none.', { aggregator: 'max' }),
  conversationsKept: gauge(
    'gateway_conversations_kept_unlearned',
    'Conversations that are kept after their deletion period, because memory has not learned from them; at most 10,000.',
  ),
  promptsToConvert: gauge(
    'gateway_prompts_to_convert',
    'Prompts that an older release stored, and that the daily cleanup converts; beyond 10,000 an estimate.',
  ),
  learningBatches: gauge(
    'gateway_learning_batches',
    'Learning batches that run, fail with unusable responses, are parked until a replay, or were stopped.',
    {
      labels: ['state'],
      aggregator: 'max',
    },
  ),
  learningLag: gauge(
    'gateway_learning_lag_seconds',
    'How long the oldest message has been due that memory has still to learn; 0 when none is due.',
    { aggregator: 'max' },
  ),
  ownerlessLeases: gauge('gateway_leases_without_owner', 'Leases of open windows that are held by processes without a heartbeat.', {
    aggregator: 'max',
  }),
  ceilings: gauge('gateway_ceilings', 'Ceilings of calls and cost of which 90 % are used (near), or all (reached).', {
    labels: ['scope', 'ceiling', 'state'],
    aggregator: 'max',
  }),

  // Durable work.
  temporalUp: gauge('gateway_temporal_up', '1 while durable work is connected to Temporal; in a worker, while it also polls.', {
    aggregator: 'max',
  }),
  workerPolling: gauge('gateway_worker_polling', '1 while the worker of this process polls Temporal.', { aggregator: 'max' }),

  temporalBacklog: gauge('gateway_temporal_backlog_tasks', "Tasks that wait in Temporal's queue for a worker, by type.", {
    labels: ['type'],
    aggregator: 'max',
  }),
  temporalBacklogAge: gauge(
    'gateway_temporal_backlog_age_seconds',
    "How long the oldest task has waited in Temporal's queue for a worker, by type; 0 when there is none.",
    { labels: ['type'], aggregator: 'max' },
  ),
  temporalFairness: gauge(
    'gateway_temporal_fairness',
    '1 when the Temporal server is of a version that can let projects take turns in the queue, 0 when it is older.',
    { aggregator: 'min' },
  ),
  activityWait: histogram(
    'gateway_activity_schedule_to_start_seconds',
    'Time that activities waited until the worker of this process started them.',
    [],
  ),

  // The process.
  cachedKeys: gauge('gateway_cached_keys', 'Virtual keys in memory, whose calls are served while the database is unavailable.', {
    aggregator: 'min',
  }),
  databaseConnections: gauge('gateway_database_connections', 'Connections to the database.', { labels: ['pool', 'state'] }),
  databaseConnectionsLimit: gauge('gateway_database_connections_limit', 'Limit of the connections to the database.', { labels: ['pool'] }),
  databaseWaiting: gauge('gateway_database_waiting_queries', 'Queries that wait for a connection to the database.', { labels: ['pool'] }),
  eventLoopLag: gauge('gateway_event_loop_lag_seconds', 'Delay of timers since the last scrape: 99th percentile and maximum.', {
    labels: ['quantile'],
    aggregator: 'max',
  }),
  eventLoopUtilization: gauge(
    'gateway_event_loop_utilization_ratio',
    'Share of the time since the last scrape in which the event loop ran.',
    {
      aggregator: 'max',
    },
  ),
  processes: gauge(
    'gateway_processes',
    'API processes on the port (GATEWAY_WORKERS): those that this scrape contains, and those that did not respond.',
    {
      labels: ['state'],
    },
  ),
  cpu: counter('process_cpu_seconds_total', 'CPU time.'),
  residentMemory: gauge('process_resident_memory_bytes', 'Resident memory.'),
  heapUsed: gauge('nodejs_heap_size_used_bytes', 'Memory of objects in the heap.'),
  externalMemory: gauge('nodejs_external_memory_bytes', 'Memory of buffers outside of the heap.'),
  openFiles: gauge('process_open_fds', 'Open file descriptors; only on Linux.', { aggregator: 'max' }),
} as const satisfies Record<string, MetricDefinition>;

export type MetricKey = keyof typeof metrics;
