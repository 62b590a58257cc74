/**
 * Lists every environment variable that the gateway reads. We generate the documentation from it, and `environment.ts`
 * can't read any others. It doesn't include variables that gateway.yaml refers to as `${NAME}`.
 */
export interface Variable {
  /**
   * The format of the value. We never log, show or quote a secret in an error. Secrets can also come from files
   * (`secret-files.ts`).
   */
  readonly type: 'text' | 'secret' | 'integer' | 'number' | 'boolean' | 'choice' | 'list' | 'path' | 'URL';
  /** Describes in Markdown what applies if the variable isn't set. Null if there is no default. */
  readonly default: string | null;
  /** Describes in Markdown what the variable does, including its format, its unit, and what needs it. */
  readonly meaning: string;
  /** The commands that use the value. If this is missing, they are start, serve and worker. */
  readonly readers?: readonly Reader[];
}

/** The commands that read the configuration. */
export type Command = 'start' | 'serve' | 'worker' | 'migrate' | 'codec-server' | 'payload-key';

/** `commands` stands for all commands that call a running service. */
type Reader = Command | 'commands';

const api: readonly Reader[] = ['start', 'serve'];
/** The commands that run the processes of a deployment. */
const services: readonly Reader[] = [...api, 'worker'];
const addressed: readonly Reader[] = [...services, 'commands'];
const temporal: readonly Reader[] = [...services, 'payload-key'];

export const variables = {
  PORT: { type: 'integer', readers: addressed, default: '`8080`', meaning: 'port of the HTTP server; 0 for any free one' },
  HOST: {
    type: 'text',
    readers: addressed,
    default: '`127.0.0.1`',
    meaning: 'address on which the HTTP server listens; `0.0.0.0` for all of IPv4',
  },
  GATEWAY_DATA_DIR: {
    type: 'path',
    readers: [...services, 'payload-key', 'commands', 'codec-server'],
    default: '`.gateway`',
    meaning: 'data directory, on a local disk that outlives the process: it holds the journal',
  },
  GATEWAY_CONFIG: {
    type: 'path',
    readers: [...services, 'migrate', 'commands', 'codec-server'],
    default: '`gateway.yaml`, if it exists',
    meaning: 'configuration file',
  },
  DATABASE_URL: {
    type: 'secret',
    readers: [...services, 'migrate'],
    default: 'the embedded database',
    meaning: '`postgres://user:password@host:5432/database`; needed by `serve`, `worker` and `migrate`',
  },
  GATEWAY_WORKERS: {
    type: 'integer',
    readers: api,
    default: '`1`',
    meaning: 'API processes on the port, 1 to 256; more than 1 needs `DATABASE_URL`',
  },
  GATEWAY_BODY_MEMORY_MIB: {
    type: 'integer',
    readers: api,
    default: '`512`',
    meaning: 'request bodies that a process holds at once, in MiB, at least 32; beyond it calls are 503 `budget_unavailable`',
  },
  GATEWAY_STOP_DELAY_SECONDS: {
    type: 'integer',
    readers: api,
    default: '`5` with `serve`, else `0`',
    meaning: 'how long a process that was asked to stop serves calls while `/readyz` is 503, 0 to 300; not for `worker`',
  },
  GATEWAY_STOP_TIMEOUT_SECONDS: {
    type: 'integer',
    default: '`600` with `serve` and `worker`, `10` with `start`',
    meaning:
      'how long running calls and durable work may take to end when a process stops, after the stop delay, 0 to 3600. A process in which nothing runs does not wait. The [grace periods](architecture/processes.md#stop) of Compose, Kubernetes and HAProxy follow from it',
  },
  GATEWAY_METRICS_ADDRESS: {
    type: 'text',
    default: 'none: `/metrics` needs the admin token, on the port of the service',
    meaning: '`host:port` where `/metrics` is served without a token, for Prometheus; a network that only the monitoring can reach',
  },
  GATEWAY_ADMIN_TOKEN: {
    type: 'secret',
    readers: [...api, 'commands', 'codec-server'],
    default: 'with the embedded database, created at the first start, in the data directory',
    meaning:
      'token of `/provision` and the command line, at least 16 characters; needed with `DATABASE_URL`, the same in every process. [Two](operating.md#the-admin-token) while it is replaced',
  },
  GATEWAY_PUBLIC_URL: {
    type: 'URL',
    readers: api,
    default: 'as requests name it',
    meaning: 'scheme and host under which browsers reach the gateway',
  },
  OIDC_ISSUER: { type: 'URL', readers: api, default: null, meaning: 'identity provider of the console: an `https://` address' },
  OIDC_CLIENT_ID: {
    type: 'text',
    readers: api,
    default: null,
    meaning: 'client that is registered at the identity provider; needed with `OIDC_ISSUER`',
  },
  OIDC_CLIENT_SECRET: { type: 'secret', readers: api, default: 'none: a public client', meaning: 'secret of that client' },
  OIDC_ALLOWED_DOMAINS: {
    type: 'list',
    readers: api,
    default: 'none',
    meaning: 'domains, separated by commas, whose verified e-mail addresses get an account at their first sign-in',
  },
  GATEWAY_JOURNAL_SYNC: {
    type: 'choice',
    default: '`off`',
    meaning:
      '`on` flushes each write of the journal to the disk before the call continues. With `off` the death of a process loses nothing, a power failure the calls of the last second or so',
  },
  HTTPS_PROXY: {
    type: 'URL',
    default: 'none',
    meaning: 'proxy for connections to vendors with an `https://` address; providers can have [their own](#providersprovider)',
  },
  HTTP_PROXY: { type: 'URL', default: 'none', meaning: 'proxy for connections to vendors with an `http://` address' },
  NO_PROXY: {
    type: 'list',
    default: 'none',
    meaning:
      'hosts that are connected directly, separated by commas: names with everything below them, `host:port`, networks such as `10.0.0.0/8`, or `*` for all. The machine itself always is',
  },
  OPENAI_API_KEY: { type: 'secret', default: null, meaning: 'without a configuration file: adds OpenAI with tiers of its models' },
  ANTHROPIC_API_KEY: { type: 'secret', default: null, meaning: 'without a configuration file: adds Anthropic with tiers of its models' },
  GATEWAY_LOCAL_EMBEDDER: {
    type: 'choice',
    default: '`auto`',
    meaning:
      'the [embedding model that the gateway runs](local-embedder.md): `auto` where a tier names `local/bge-small-en-v1.5` or no other embeddings are configured, `on` also where only projects name it, `off` never',
  },
  GATEWAY_LOCAL_EMBEDDER_DIR: {
    type: 'path',
    default: 'none: the cache directory, into which they are fetched',
    meaning: 'folder with the files of that model, as `gateway fetch-embedder --to <folder>` writes them',
  },
  GATEWAY_TEMPORAL: { type: 'choice', default: '`on`', meaning: '`off` disables durable work: learning, videos, erasure and cleanup' },
  TEMPORAL_ADDRESS: {
    type: 'text',
    readers: temporal,
    default: 'a development server that `start` runs',
    meaning: '`host:port` of the Temporal frontend; needed by `serve` and `worker` unless `GATEWAY_TEMPORAL` is `off`',
  },
  TEMPORAL_NAMESPACE: {
    type: 'text',
    readers: temporal,
    default: '`default`',
    meaning: 'namespace; that of the development server is named after the data directory',
  },
  TEMPORAL_CREATE_NAMESPACE: { type: 'boolean', default: '`false`', meaning: '`true` creates a namespace that does not exist' },
  TEMPORAL_API_KEY: {
    type: 'secret',
    readers: temporal,
    default: null,
    meaning: 'API key of Temporal Cloud, or of a server that checks one; implies TLS',
  },
  TEMPORAL_TLS: {
    type: 'boolean',
    readers: temporal,
    default: '`true` with an API key or one of the files, else `false`',
    meaning: '`true` connects with TLS, by default with the CA certificates of the system',
  },
  TEMPORAL_TLS_SERVER_NAME: {
    type: 'text',
    readers: temporal,
    default: 'the host of the address',
    meaning: "name in the server's certificate",
  },
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: {
    type: 'path',
    readers: temporal,
    default: null,
    meaning: 'file of the CA certificate that signed the certificate of the server',
  },
  TEMPORAL_TLS_CLIENT_CERT_PATH: {
    type: 'path',
    readers: temporal,
    default: null,
    meaning: 'file of the client certificate, for mutual TLS; needs the key',
  },
  TEMPORAL_TLS_CLIENT_KEY_PATH: { type: 'path', readers: temporal, default: null, meaning: 'file of the key of the client certificate' },
  TEMPORAL_PAYLOAD_KEY: {
    type: 'secret',
    readers: [...temporal, 'codec-server'],
    default: 'none: payloads are not encrypted',
    meaning:
      '32 random bytes in base64 (`openssl rand -base64 32`): encrypts what passes to Temporal. Several keys are separated by commas: the first encrypts, all decrypt. The same in every process and in the codec server',
  },
  TEMPORAL_UI_URL: {
    type: 'URL',
    readers: api,
    default: null,
    meaning: 'web UI of an external Temporal; learning batches link to their runs there',
  },
  TEMPORAL_WORKER_BUILD_ID: {
    type: 'text',
    readers: ['start', 'worker'],
    default: 'none: runs continue on any worker',
    meaning: 'build of this worker: turns worker versioning on, for which the namespace names the current build',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    type: 'URL',
    default: 'none: no traces',
    meaning: 'address of an OTLP collector, to which `/v1/traces` is added: `http://localhost:4318`. The other variables of OTLP need it',
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: { type: 'URL', default: null, meaning: 'the complete address for traces; takes precedence' },
  OTEL_EXPORTER_OTLP_HEADERS: {
    type: 'secret',
    default: null,
    meaning: 'headers for the collector: `name=value,name=value`, values in percent-encoding',
  },
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: { type: 'secret', default: null, meaning: 'the same for traces only; takes precedence by name' },
  OTEL_EXPORTER_OTLP_TIMEOUT: { type: 'integer', default: '`10000`', meaning: 'time limit of an export in milliseconds' },
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: { type: 'integer', default: null, meaning: 'the same for traces only; takes precedence' },
  OTEL_EXPORTER_OTLP_PROTOCOL: { type: 'choice', default: '`http/protobuf`', meaning: '`http/protobuf`, the only one' },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: { type: 'choice', default: null, meaning: 'the same for traces only' },
  OTEL_TRACES_SAMPLER: {
    type: 'choice',
    default: '`parentbased_always_on`',
    meaning:
      'which requests are traced: `always_on`, `always_off` or `traceidratio`; with `parentbased_` before it, the `traceparent` of a request decides where it has one',
  },
  OTEL_TRACES_SAMPLER_ARG: { type: 'number', default: '`1`', meaning: 'ratio of `traceidratio`, from 0 to 1' },
  OTEL_TRACES_EXPORTER: { type: 'choice', default: '`otlp`', meaning: '`none` turns traces off, whatever the endpoint' },
  OTEL_SDK_DISABLED: { type: 'boolean', default: '`false`', meaning: '`true` turns traces off, whatever the endpoint' },
  OTEL_SERVICE_NAME: { type: 'text', default: '`model-gateway`', meaning: 'name of the service in traces' },
  OTEL_RESOURCE_ATTRIBUTES: {
    type: 'list',
    default: null,
    meaning: 'further attributes of the service: `name=value,name=value`, values in percent-encoding',
  },
  LOG_LEVEL: {
    type: 'choice',
    readers: [...services, 'migrate', 'codec-server'],
    default: '`info`',
    meaning: '`debug`, `info`, `warn`, `error` or `silent`',
  },
  LOG_FORMAT: {
    type: 'choice',
    readers: [...services, 'migrate', 'codec-server'],
    default: '`auto`',
    meaning: '`json` or `text`; `auto` is text if standard output is a terminal, else JSON',
  },
} as const satisfies Readonly<Record<string, Variable>>;

export type VariableName = keyof typeof variables;
