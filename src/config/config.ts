/**
 * The configuration, a single object that is validated and frozen. Modules receive the part that they need as an
 * argument. Most of them can't import `config`, so they declare this part themselves with the same names.
 */
import type { Dialect, Route, Tiers } from '../core/call.ts';
import type { ModelTraits, ResponsesSupport } from '../core/candidate.ts';
import type { CloudIdentitySettings } from '../core/cloud-identity.ts';
import type { Egress } from '../core/egress.ts';
import type { Price } from '../core/pricing.ts';
import type { RequestFormat } from '../core/request-format.ts';
import type { SupportedParam } from '../core/supported-params.ts';

export type ProviderDialect = Dialect | 'gemini';
export type Kind = 'chat' | 'embeddings' | 'moderations' | 'rerank' | 'images' | 'speech' | 'transcriptions' | 'video';

export interface ProviderConfig {
  readonly name: string;
  /** The name of the vendor's description (src/config/vendors), or null if we don't know the vendor. */
  readonly vendor: string | null;
  /** Includes the version prefix, but no trailing slash. */
  readonly baseUrl: string;
  readonly apiKey: string | null;
  readonly dialect: ProviderDialect;
  readonly serves: readonly Route[];
  /** Null for the local embedder, which meets every requirement because its texts never leave the machine. */
  readonly tags: readonly string[] | null;
  /** Unknown if the row doesn't say which routes the provider serves and we don't know the vendor. */
  readonly responses: ResponsesSupport;
  /** The header for the API key, and the scheme that comes before the key (e.g. `Bearer`), if any. */
  readonly auth: { readonly header: string; readonly scheme: string | null };
  /** The cloud identity that the provider uses in place of an API key, or null. */
  readonly identity: CloudIdentitySettings | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly requests: RequestFormat;
  /** Null if we connect to the provider in the usual way. */
  readonly egress: Egress | null;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** How long we wait for the first content of a response. Null if this provider has no limit of its own. */
  readonly firstContentTimeoutMs: number | null;
  readonly imageShape: 'openai' | 'artifacts';
  /** If this is true, we send `response_format: b64_json` to the models that accept it. Otherwise we never send it. */
  readonly imageResponseFormat: boolean;
  readonly speechShape: 'openai' | 'voice';
  readonly speechMediaType: string | null;
  /** The request format for vendors that have the speech shape `voice`. */
  readonly speech: {
    readonly voiceIn: 'path' | 'query';
    readonly path: string;
    readonly textField: string;
    readonly body: Readonly<Record<string, unknown>>;
  };
  /** Other hosts from which we may download this vendor's files. */
  readonly assetHosts: readonly string[];
  /** The keys, deployments or regions between which we choose. Empty if there's only one. */
  readonly members: readonly MemberConfig[];
}

/** A member of a pool, with the settings of its provider and its own ones. Its `members` are empty. */
export interface MemberConfig extends ProviderConfig {
  readonly member: string;
  readonly weight: number;
  /** Null if it doesn't share its account with another member. */
  readonly account: string | null;
}

/** Where a catalog row comes from. The file takes precedence over imports, which take precedence over built-in rows. */
export type RowSource = 'file' | 'import' | 'starter';

/** A model in the catalog. Amounts are in nano-dollars. */
export interface CatalogRow {
  /** `<provider>/<model>`. */
  readonly id: string;
  readonly source: RowSource;
  readonly kind: Kind;
  /** The token prices, or null if tokens have no price. */
  readonly price: Price | null;
  /** Prices for calls whose input has more than `tokens` tokens, in ascending order. */
  readonly aboveTokens: readonly { readonly tokens: number; readonly price: Price }[];
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens: number | null;
  /** The maximum for input and requested output together, if the vendor checks their sum. */
  readonly contextWindow: number | null;
  /** How long we wait for the first content of a response. If this is null, we use the provider's setting. */
  readonly firstContentTimeoutMs: number | null;
  /** The most tokens that a single image can have. */
  readonly imageTokens: number | null;
  /** The factors for token prices in other service tiers, in millionths, by tier. */
  readonly tierMillionths: Readonly<Record<string, bigint>>;
  /** Nano-dollars for each use of a tool that the vendor runs, by tool. */
  readonly perToolUseNanos: Readonly<Record<string, bigint>>;
  readonly traits: ModelTraits;
  /** The routes of a chat model. Null if it has all the routes that its provider serves. */
  readonly serves: readonly Route[] | null;
  /** The optional fields that an image or speech model accepts, or null if we don't know them. */
  readonly takes: readonly SupportedParam[] | null;
  readonly imageInputNanos: bigint | null;
  readonly perImageNanos: bigint | null;
  readonly perMillionCharactersNanos: bigint | null;
  readonly perSecondNanos: bigint | null;
  readonly perSearchNanos: bigint | null;
}

/** A model that gets a share of a tier's conversations before the models of the tier. */
export interface Canary {
  readonly model: string;
  /** Between 0 and 1. */
  readonly share: number;
}

export interface Config {
  readonly server: ServerConfig;
  readonly temporal: TemporalConfig;
  /** Null if traces are turned off. */
  readonly tracing: TracingConfig | null;
  /**
   * All of these tokens are valid, and commands send the first one. If the list is empty, we create a token at the
   * first start and store it in the data directory.
   */
  readonly adminTokens: readonly string[];
  /**
   * The scheme and host that browsers use to reach the gateway, without a trailing slash. If this is null, we use the
   * host of the request.
   */
  readonly publicUrl: string | null;
  /** Null if there is no identity provider. */
  readonly oidc: OidcConfig | null;
  /**
   * The origins of web pages that may call the routes for virtual keys. `*` allows all origins, and an empty list
   * allows none.
   */
  readonly corsOrigins: readonly string[];
  readonly providers: Readonly<Record<string, ProviderConfig>>;
  readonly models: Readonly<Record<string, CatalogRow>>;
  readonly tiers: Tiers;
  /** The canary models of `tiers`, by the name of the tier. */
  readonly canaries: Readonly<Record<string, Canary>>;
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
  /** How long we keep the reasons of failed attempts. */
  readonly errorRetentionMs: number;
  /** How long we keep refused calls and their counts. */
  readonly refusedCallRetentionMs: number;
  readonly memory: {
    readonly idleMs: number;
    readonly recallDeadlineMs: number;
    /** The delays between the attempts of a learning batch. */
    readonly retry: { readonly initialMs: number; readonly factor: number; readonly maxMs: number };
  };
  readonly localEmbedder: {
    /** Whether the configuration uses the model that the gateway itself runs, so that it needs `withLocalEmbedder`. */
    readonly isUsed: boolean;
    /** The operator's folder that contains the model's files, or null to use the cache directory. */
    readonly folder: string | null;
  };
  /** Whether each write to the journal is flushed to the disk (`GATEWAY_JOURNAL_SYNC=on`). */
  readonly journalSync: boolean;
  /** True if no provider is configured anywhere. In this case, start the demo vendor and use `demoConfig`. */
  readonly demo: boolean;
  /** Settings that are valid but probably a mistake, one per line with their location. */
  readonly warnings: readonly string[];
}

/** The identity provider for signing in to the console (OpenID Connect). */
export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  /** Null for a public client, which only uses PKCE to prove its identity. */
  readonly clientSecret: string | null;
  /**
   * We create an account for people who have a verified e-mail address in one of these domains. The domains are in
   * lower case.
   */
  readonly allowedDomains: readonly string[];
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** `auto` means text if standard output is a terminal, and JSON otherwise. */
export type LogFormat = 'auto' | 'json' | 'text';

export interface ServerConfig {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
  /** The number of API processes. */
  readonly apiProcesses: number;
  /** The maximum size of all request bodies that a process holds in memory. */
  readonly bodyMemoryBytes: number;
  /**
   * How long the process reports that it isn't ready, but still serves calls, after it was asked to stop. This gives
   * load balancers time to notice before we reject any calls.
   */
  readonly stopDelayMs: number;
  /** How long running calls and durable work may take to finish after the stop delay, before we abort them. */
  readonly stopTimeoutMs: number;
  /** The address at which we serve `/metrics` without a token, or null if we don't. */
  readonly metricsAddress: { readonly host: string; readonly port: number } | null;
}

/** Where we send traces, and how many of them (docs/traces.md). */
export interface TracingConfig {
  /** The complete address that we send traces to. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Attributes that describe the process, including `service.name`. */
  readonly resource: Readonly<Record<string, string>>;
  /** The ratio of traces that we start ourselves, and whether the caller's `traceparent` decides instead. */
  readonly sampler: { readonly ratio: number; readonly followsParent: boolean };
}

export interface TemporalConfig {
  /** With `dev`, the gateway runs its own dev server. */
  readonly mode: 'off' | 'external' | 'dev';
  readonly address: string | null;
  /** This can only be null with `dev`. We name the namespace of the dev server after the data directory. */
  readonly namespace: string | null;
  /** Whether we create the namespace if it doesn't exist. We always create the dev server's namespace. */
  readonly createNamespace: boolean;
  readonly apiKey: string | null;
  /** Null if we don't use TLS. We read the files when we connect. */
  readonly tls: TemporalTls | null;
  /**
   * Keys of 32 bytes in base64. The first one encrypts payloads, and all of them can decrypt. If the list is empty,
   * payloads aren't encrypted.
   */
  readonly payloadKeys: readonly string[];
  readonly workerBuildId: string | null;
  /** The base address of the web UI of an external server, without a trailing slash. */
  readonly uiUrl: string | null;
}

export interface TemporalTls {
  readonly serverName: string | null;
  readonly caFile: string | null;
  readonly certificateFile: string | null;
  readonly keyFile: string | null;
}

/** Thrown with all errors in the settings, one per line with their location. */
export class ConfigError extends Error {
  readonly errors: readonly string[];

  constructor(errors: readonly string[]) {
    super(errors.join('\n'));
    this.name = 'ConfigError';
    this.errors = errors;
  }
}
