/**
 * Lists all environment variables that the gateway reads. We generate the documentation from this list, and
 * `environment.ts` can't read any other variables. The variables that gateway.yaml refers to as `${NAME}` aren't
 * included.
 */
export interface Variable {
  /**
   * The format of the value. Secrets are never logged or shown, and errors don't quote them. They can also come from
   * files (`secret-files.ts`).
   */
  readonly type: 'text' | 'secret' | 'integer' | 'number' | 'boolean' | 'choice' | 'list' | 'path' | 'URL';
  /** The value that applies if the variable isn't set, in Markdown. Null if there's no default. */
  readonly default: string | null;
  /** Describes in Markdown what the variable does, including its format and unit, and which commands need it. */
  readonly meaning: string;
  /** The commands that read the variable. Defaults to start, serve and worker. */
  readonly readers?: readonly Reader[];
}

export type Command = 'start' | 'serve' | 'worker' | 'migrate' | 'codec-server' | 'payload-key';

/** A command that reads the variable. `commands` stands for all commands that send requests to a running service. */
type Reader = Command | 'commands';

const api: readonly Reader[] = ['start', 'serve'];
const services: readonly Reader[] = [...api, 'worker'];
const addressed: readonly Reader[] = [...services, 'commands'];
const temporal: readonly Reader[] = [...services, 'payload-key'];

export const variables = {
  PORT: { type: 'integer', readers: addressed, default: '`8080`', meaning: 'The port of the HTTP server. `0` selects any free port.' },
  HOST: {
    type: 'text',
    readers: addressed,
    default: '`127.0.0.1`',
    meaning: 'The address on which the HTTP server listens. `0.0.0.0` stands for all IPv4 addresses.',
  },
  GATEWAY_DATA_DIR: {
    type: 'path',
    readers: [...services, 'payload-key', 'commands', 'codec-server'],
    default: '`.gateway`',
    meaning: 'The data directory. It has to be on a local disk that is kept when the process ends, because it contains the journal.',
  },
  GATEWAY_CONFIG: {
    type: 'path',
    readers: [...services, 'migrate', 'commands', 'codec-server'],
    default: '`gateway.yaml`, if it exists',
    meaning: 'The configuration file.',
  },
  DATABASE_URL: {
    type: 'secret',
    readers: [...services, 'migrate'],
    default: 'the embedded database',
    meaning: 'The address of the database, `postgres://user:password@host:5432/database`. `serve`, `worker` and `migrate` need it.',
  },
  GATEWAY_API_PROCESSES: {
    type: 'integer',
    readers: api,
    default: '`1`',
    meaning: 'The number of API processes that share the port, from 1 to 256. If you run more than one, set `DATABASE_URL`.',
  },
  GATEWAY_WORKERS: {
    type: 'integer',
    readers: api,
    default: null,
    meaning: 'The former name of `GATEWAY_API_PROCESSES`, which still works. Set only one of them.',
  },
  GATEWAY_BODY_MEMORY_MIB: {
    type: 'integer',
    readers: api,
    default: '`512`',
    meaning:
      'How much memory a process may use for request bodies, in MiB, at least 32. While it is used up, further calls get 503 `budget_unavailable`.',
  },
  GATEWAY_STOP_DELAY_SECONDS: {
    type: 'integer',
    readers: api,
    default: '`5` with `serve`, else `0`',
    meaning:
      'How many seconds a process keeps serving calls after it was asked to stop, from 0 to 300. Meanwhile `/readyz` returns 503. It has no effect on `worker`.',
  },
  GATEWAY_STOP_TIMEOUT_SECONDS: {
    type: 'integer',
    default: '`600` with `serve` and `worker`, `10` with `start`',
    meaning:
      'How many seconds a stopping process waits for its running calls and durable work, from 0 to 3600. The time starts after the stop delay, and the process does not wait if nothing is running. The [grace periods](architecture/processes.md#stop) of Compose, Kubernetes and HAProxy depend on it.',
  },
  GATEWAY_METRICS_ADDRESS: {
    type: 'text',
    default: 'none, so `/metrics` is served on the port of the service and needs the admin token',
    meaning:
      'A `host:port` at which `/metrics` is served without a token, for Prometheus. Choose a network that only your monitoring can reach.',
  },
  GATEWAY_ADMIN_TOKEN: {
    type: 'secret',
    readers: [...api, 'commands', 'codec-server'],
    default: 'with the embedded database, a token that the first start creates in the data directory',
    meaning:
      'The token for `/provision` and the command line, with at least 16 characters. If you set `DATABASE_URL`, you also have to set this, to the same value in every process. While you replace the token, you can set [two of them](operating.md#the-admin-token).',
  },
  GATEWAY_PUBLIC_URL: {
    type: 'URL',
    readers: api,
    default: 'taken from each request',
    meaning: 'The scheme and host under which browsers reach the gateway.',
  },
  OIDC_ISSUER: { type: 'URL', readers: api, default: null, meaning: 'The `https://` address of the identity provider for the console.' },
  OIDC_CLIENT_ID: {
    type: 'text',
    readers: api,
    default: null,
    meaning: 'The id of the client that you registered at the identity provider. It is required if you set `OIDC_ISSUER`.',
  },
  OIDC_CLIENT_SECRET: { type: 'secret', readers: api, default: 'none, for a public client', meaning: 'The secret of this client.' },
  OIDC_ALLOWED_DOMAINS: {
    type: 'list',
    readers: api,
    default: 'none',
    meaning: 'Domains, separated by commas. People with a verified e-mail address in one of them get an account when they first sign in.',
  },
  GATEWAY_JOURNAL_SYNC: {
    type: 'choice',
    default: '`off`',
    meaning:
      '`on` flushes each journal write to the disk before the call continues. With `off`, a crashed process loses nothing, but a power failure can lose the calls of about the last second.',
  },
  OPENAI_API_KEY: {
    type: 'secret',
    default: null,
    meaning: 'Adds OpenAI as a provider, with tiers of its models, if `gateway.yaml` has no `providers`.',
  },
  ANTHROPIC_API_KEY: {
    type: 'secret',
    default: null,
    meaning: 'Adds Anthropic as a provider, with tiers of its models, if `gateway.yaml` has no `providers`.',
  },
  HTTPS_PROXY: {
    type: 'URL',
    default: 'none',
    meaning: 'The proxy for connections to vendors with an `https://` address. A provider can have [its own](#providersprovider).',
  },
  HTTP_PROXY: { type: 'URL', default: 'none', meaning: 'The proxy for connections to vendors with an `http://` address.' },
  NO_PROXY: {
    type: 'list',
    default: 'none',
    meaning:
      'Hosts to which the gateway connects directly, separated by commas: names with everything below them, `host:port`, networks such as `10.0.0.0/8`, or `*` for all. It always connects directly to the machine itself.',
  },
  GATEWAY_LOCAL_EMBEDDER: {
    type: 'choice',
    default: '`auto`',
    meaning:
      'Whether the gateway runs [its own embedding model](local-embedder.md). With `auto`, it runs the local models that your tiers name, and `local/bge-small-en-v1.5` if you have not configured any other embeddings. Use `on` if only projects name that model. With `off`, the gateway never runs one.',
  },
  GATEWAY_LOCAL_EMBEDDER_DIR: {
    type: 'path',
    default: 'none, so the gateway downloads them into the cache directory',
    meaning: 'A folder with the files of the local models, as `gateway fetch-embedder --to <folder>` writes them.',
  },
  GATEWAY_TEMPORAL: {
    type: 'choice',
    default: '`on`',
    meaning: '`off` disables durable work, i.e. learning, videos, erasure and cleanup.',
  },
  TEMPORAL_ADDRESS: {
    type: 'text',
    readers: temporal,
    default: 'a development server that `start` runs',
    meaning: 'The `host:port` of the Temporal frontend. `serve` and `worker` need it unless `GATEWAY_TEMPORAL` is `off`.',
  },
  TEMPORAL_NAMESPACE: {
    type: 'text',
    readers: temporal,
    default: '`default`',
    meaning: 'The Temporal namespace. The development server uses a namespace that is named after the data directory.',
  },
  TEMPORAL_CREATE_NAMESPACE: { type: 'boolean', default: '`false`', meaning: '`true` creates the namespace if it does not exist.' },
  TEMPORAL_API_KEY: {
    type: 'secret',
    readers: temporal,
    default: null,
    meaning: 'The API key for Temporal Cloud, or for your own server if it checks one. The connection then uses TLS.',
  },
  TEMPORAL_TLS: {
    type: 'boolean',
    readers: temporal,
    default: '`true` if you set an API key or one of the files below, else `false`',
    meaning: '`true` connects with TLS. By default, the certificate of the server is checked with the CA certificates of the system.',
  },
  TEMPORAL_TLS_SERVER_NAME: {
    type: 'text',
    readers: temporal,
    default: 'the host in `TEMPORAL_ADDRESS`',
    meaning: "The name in the server's certificate.",
  },
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: {
    type: 'path',
    readers: temporal,
    default: null,
    meaning: "A file with the CA certificate that signed the server's certificate.",
  },
  TEMPORAL_TLS_CLIENT_CERT_PATH: {
    type: 'path',
    readers: temporal,
    default: null,
    meaning: 'A file with the client certificate, for mutual TLS. You also have to set its key.',
  },
  TEMPORAL_TLS_CLIENT_KEY_PATH: {
    type: 'path',
    readers: temporal,
    default: null,
    meaning: 'A file with the key of the client certificate.',
  },
  TEMPORAL_PAYLOAD_KEY: {
    type: 'secret',
    readers: [...temporal, 'codec-server'],
    default: 'none, so payloads are not encrypted',
    meaning:
      'The key that encrypts what the gateway sends to Temporal. It consists of 32 random bytes in base64 (`openssl rand -base64 32`). You can set several keys, separated by commas. The first one encrypts, and all of them decrypt. Use the same value in every process and in the codec server.',
  },
  TEMPORAL_UI_URL: {
    type: 'URL',
    readers: api,
    default: null,
    meaning: 'The address of the web UI of an external Temporal. Learning batches in the console link to their runs there.',
  },
  TEMPORAL_WORKER_BUILD_ID: {
    type: 'text',
    readers: ['start', 'worker'],
    default: 'none, so runs continue on any worker',
    meaning: 'The build id of this worker. It turns on worker versioning, for which you have to set the current build in the namespace.',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    type: 'URL',
    default: 'none, so there are no traces',
    meaning:
      'The address of an OTLP collector, such as `http://localhost:4318`. The gateway appends `/v1/traces`. The other OTLP variables have no effect without an address.',
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    type: 'URL',
    default: null,
    meaning: 'The complete address for traces. It takes precedence over the address above.',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    type: 'secret',
    default: null,
    meaning: 'Headers for the collector, as `name=value,name=value` with percent-encoded values.',
  },
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: {
    type: 'secret',
    default: null,
    meaning: 'Headers for traces only. If a header is in both variables, this one takes precedence.',
  },
  OTEL_EXPORTER_OTLP_TIMEOUT: { type: 'integer', default: '`10000`', meaning: 'The timeout of an export in milliseconds.' },
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: {
    type: 'integer',
    default: null,
    meaning: 'The timeout for traces only. It takes precedence over the timeout above.',
  },
  OTEL_EXPORTER_OTLP_PROTOCOL: { type: 'choice', default: '`http/protobuf`', meaning: 'The protocol. Only `http/protobuf` is supported.' },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: { type: 'choice', default: null, meaning: 'The protocol for traces only.' },
  OTEL_TRACES_SAMPLER: {
    type: 'choice',
    default: '`parentbased_always_on`',
    meaning:
      'Which requests are traced, `always_on`, `always_off` or `traceidratio`. If you put `parentbased_` in front of it, a request that has a `traceparent` is traced if its parent is.',
  },
  OTEL_TRACES_SAMPLER_ARG: { type: 'number', default: '`1`', meaning: 'The share of requests that `traceidratio` traces, from 0 to 1.' },
  OTEL_TRACES_EXPORTER: { type: 'choice', default: '`otlp`', meaning: '`none` turns traces off, even if you set an address.' },
  OTEL_SDK_DISABLED: { type: 'boolean', default: '`false`', meaning: '`true` turns traces off, even if you set an address.' },
  OTEL_SERVICE_NAME: { type: 'text', default: '`model-gateway`', meaning: 'The name of the service in traces.' },
  OTEL_RESOURCE_ATTRIBUTES: {
    type: 'list',
    default: null,
    meaning: 'Additional attributes of the service, as `name=value,name=value` with percent-encoded values.',
  },
  LOG_LEVEL: {
    type: 'choice',
    readers: [...services, 'migrate', 'codec-server'],
    default: '`info`',
    meaning: 'The lowest level that is logged: `debug`, `info`, `warn`, `error` or `silent`.',
  },
  LOG_FORMAT: {
    type: 'choice',
    readers: [...services, 'migrate', 'codec-server'],
    default: '`auto`',
    meaning: 'The format of the log, `json` or `text`. `auto` writes text if standard output is a terminal, and otherwise JSON.',
  },
} as const satisfies Readonly<Record<string, Variable>>;

export type VariableName = keyof typeof variables;
