/**
 * The configuration: one validated, frozen object. Modules receive the part they need as an argument; most may not import `config` and declare
 * that part themselves with the same names.
 */
import type { Dialect, Route, Tiers } from '../core/call.ts';
import type { ModelTraits, ResponsesSupport } from '../core/candidate.ts';
import type { Price } from '../core/pricing.ts';
import type { TakeableField } from '../core/takeable-fields.ts';

export type ProviderDialect = Dialect | 'gemini';
export type Kind = 'chat' | 'embeddings' | 'moderations' | 'rerank' | 'images' | 'speech' | 'transcriptions' | 'video';

export interface ProviderConfig {
  readonly name: string;
  /** With the version prefix, without a trailing slash. */
  readonly baseUrl: string;
  readonly apiKey: string | null;
  readonly dialect: ProviderDialect;
  readonly serves: readonly Route[];
  /** Unknown when the row does not say what it serves and the vendor is not a known one. */
  readonly responses: ResponsesSupport;
  /** Header of the API key, and the scheme before the key (`Bearer`), if any. */
  readonly auth: { readonly header: string; readonly scheme: string | null };
  readonly headers: Readonly<Record<string, string>>;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Longest wait for the first content of a response. Null: no limit of its own. */
  readonly firstContentTimeoutMs: number | null;
  readonly imageShape: 'openai' | 'artifacts';
  /** False: never send `response_format: b64_json`. True: send it to the models that accept it. */
  readonly imageResponseFormat: boolean;
  readonly speechShape: 'openai' | 'voice';
  readonly speechMediaType: string | null;
  /** Request format of vendors with the speech shape `voice`. */
  readonly speech: {
    readonly voiceIn: 'path' | 'query';
    readonly path: string;
    readonly textField: string;
    readonly body: Readonly<Record<string, unknown>>;
  };
  /** Additional hosts from which this vendor's files may be fetched. */
  readonly assetHosts: readonly string[];
}

/** Origin of a catalog row, by precedence: gateway.yaml, `gateway catalog import`, built in. */
export type RowSource = 'file' | 'import' | 'starter';

/** A model of the catalog. Amounts are nano-dollars. */
export interface CatalogRow {
  /** `<provider>/<model>`. */
  readonly id: string;
  readonly source: RowSource;
  readonly kind: Kind;
  /** Token prices. Null when tokens have no price. */
  readonly price: Price | null;
  /** Prices of calls whose input is longer than `tokens`, in ascending order. */
  readonly aboveTokens: readonly { readonly tokens: number; readonly price: Price }[];
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens: number | null;
  /** Tokens of input and requested output together, where the vendor checks their sum. */
  readonly contextWindow: number | null;
  /** Longest wait for the first content of a response. Null: as the provider. */
  readonly firstContentTimeoutMs: number | null;
  /** The most tokens that one image can have. */
  readonly imageTokens: number | null;
  /** Factors that multiply the token prices in other service tiers, in millionths, by tier. */
  readonly tierMillionths: Readonly<Record<string, bigint>>;
  /** Nano-dollars per use of each tool that the vendor runs. */
  readonly perToolUseNanos: Readonly<Record<string, bigint>>;
  readonly traits: ModelTraits;
  /** Routes of a chat model. Null: all that its provider serves. */
  readonly serves: readonly Route[] | null;
  /** Optional fields that an image or speech model accepts. Null: unknown. */
  readonly takes: readonly TakeableField[] | null;
  readonly imageInputNanos: bigint | null;
  readonly perImageNanos: bigint | null;
  readonly perMillionCharactersNanos: bigint | null;
  readonly perSecondNanos: bigint | null;
  readonly perSearchNanos: bigint | null;
}

export interface Config {
  readonly server: ServerConfig;
  readonly temporal: TemporalConfig;
  /** Null: no traces. */
  readonly tracing: TracingConfig | null;
  /** Each is valid; commands send the first. Empty: created at the first start and stored in the data directory. */
  readonly adminTokens: readonly string[];
  /** Scheme and host under which browsers reach the gateway, without a trailing slash. Null: as the request names them. */
  readonly publicUrl: string | null;
  /** Null: no identity provider. */
  readonly oidc: OidcConfig | null;
  /** Origins of web pages that may call the routes of virtual keys; `*` for all. Empty: none. */
  readonly corsOrigins: readonly string[];
  readonly providers: Readonly<Record<string, ProviderConfig>>;
  readonly models: Readonly<Record<string, CatalogRow>>;
  readonly tiers: Tiers;
  readonly imageTiers: Tiers;
  readonly speechTiers: Tiers;
  readonly transcriptionTiers: Tiers;
  readonly defaults: {
    readonly imageProvider: string | null;
    readonly speechProvider: string | null;
    readonly transcriptionProvider: string | null;
    readonly videoProvider: string | null;
    readonly videoModel: string | null;
  };
  readonly auto: { readonly classifier: 'rules' | 'model' | 'off' };
  readonly catalogFill: boolean;
  readonly onBudgetStoreDown: 'allow' | 'refuse';
  /** How long the reasons of failed attempts are kept. */
  readonly errorRetentionMs: number;
  readonly memory: {
    readonly idleMs: number;
    readonly recallDeadlineMs: number;
    /** Waits between the tries of a learning batch. */
    readonly retry: { readonly initialMs: number; readonly factor: number; readonly maxMs: number };
  };
  readonly localEmbedder: {
    /** Whether the configuration needs `withLocalEmbedder`: it uses the model that the gateway itself runs. */
    readonly isUsed: boolean;
    /** The operator's folder with its files; null for the cache directory. */
    readonly folder: string | null;
  };
  /** Sync the journal to the disk at each write (`GATEWAY_JOURNAL_SYNC=on`). */
  readonly journalSync: boolean;
  /** True when no provider is configured anywhere: start the demo vendor and use `demoConfig`. */
  readonly demo: boolean;
  /** What is valid and probably a mistake, each as one line with its location. */
  readonly warnings: readonly string[];
}

/** Identity provider for sign-in to the console (OpenID Connect). */
export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  /** Null for a public client, which proves itself by PKCE alone. */
  readonly clientSecret: string | null;
  /** A verified e-mail address of these domains gets an account; lower case. */
  readonly allowedDomains: readonly string[];
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** `auto` is text if standard output is a terminal, else JSON. */
export type LogFormat = 'auto' | 'json' | 'text';

export interface ServerConfig {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
  /** Number of API processes. */
  readonly workers: number;
  /** Limit of the request bodies that a process holds. */
  readonly bodyMemoryBytes: number;
  /** After a stop signal: how long the process is not ready and still serves calls, so that load balancers notice before it refuses any. */
  readonly stopDelayMs: number;
  /** After the stop delay: how long running calls and durable work may take to end before they are aborted. */
  readonly stopTimeoutMs: number;
  /** Where `/metrics` is served without a token; null for nowhere. */
  readonly metricsAddress: { readonly host: string; readonly port: number } | null;
}

/** Where traces go, and how many (docs/traces.md). */
export interface TracingConfig {
  /** The complete address to which traces are sent. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Describe the process; `service.name` is among them. */
  readonly resource: Readonly<Record<string, string>>;
  /** The ratio of traces that begin here, and whether a `traceparent` of the caller decides instead. */
  readonly sampler: { readonly ratio: number; readonly followsParent: boolean };
}

export interface TemporalConfig {
  /** `dev`: the gateway runs its own dev server. */
  readonly mode: 'off' | 'external' | 'dev';
  readonly address: string | null;
  /** Null only with `dev`, whose namespace is named after the data directory. */
  readonly namespace: string | null;
  /** Whether to create a namespace that does not exist. The dev server's is always created. */
  readonly createNamespace: boolean;
  readonly apiKey: string | null;
  /** Null: no TLS. The files are read when connecting. */
  readonly tls: TemporalTls | null;
  /** Keys of 32 bytes in base64: the first encrypts payloads, all decrypt. Empty: no encryption. */
  readonly payloadKeys: readonly string[];
  readonly workerBuildId: string | null;
  /** Base address of the web UI of an external server, without a trailing slash. */
  readonly uiUrl: string | null;
}

export interface TemporalTls {
  readonly serverName: string | null;
  readonly caFile: string | null;
  readonly certificateFile: string | null;
  readonly keyFile: string | null;
}

/** All errors of the settings, each as one line with its location. */
export class ConfigError extends Error {
  readonly errors: readonly string[];

  constructor(errors: readonly string[]) {
    super(errors.join('\n'));
    this.name = 'ConfigError';
    this.errors = errors;
  }
}
