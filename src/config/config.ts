/**
 * The configuration is a single object that is validated and frozen. Modules receive the part that they need as an
 * argument. Most of them can't import `config`, so they declare that part themselves, with the same names.
 */
import type { Dialect, Route, Tiers } from '../core/call.ts';
import type { ModelProperties, ResponsesSupport } from '../core/candidate.ts';
import type { CloudIdentitySettings } from '../core/cloud-identity.ts';
import type { Egress } from '../core/egress.ts';
import type { LocalModel } from '../core/local-model.ts';
import type { Price, UnitPrices } from '../core/pricing.ts';
import type { MediaFormat, RequestFormat } from '../core/request-format.ts';

export type ProviderDialect = Dialect | 'gemini';
export type Kind = 'chat' | 'embeddings' | 'moderations' | 'rerank' | 'images' | 'speech' | 'transcriptions' | 'video';

export interface ProviderConfig extends MediaFormat {
  readonly name: string;
  /** The name of the vendor's description (src/config/vendors), or null if the vendor is unknown. */
  readonly vendor: string | null;
  /** The base URL, which includes the version prefix but no trailing slash. */
  readonly baseUrl: string;
  readonly apiKey: string | null;
  readonly dialect: ProviderDialect;
  readonly serves: readonly Route[];
  /** Null for the local embedder, which we treat as if it had every tag, because no data leaves the machine. */
  readonly tags: readonly string[] | null;
  /**
   * Whether the provider has the responses route. `unknown` if neither its row nor the vendor's description says so.
   */
  readonly responses: ResponsesSupport;
  /** The header for the API key. If there is a scheme, e.g. `Bearer`, it comes before the key. */
  readonly auth: { readonly header: string; readonly scheme: string | null };
  /** The cloud identity that replaces the API key, if there is one. */
  readonly identity: CloudIdentitySettings | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly requests: RequestFormat;
  /** Null for a direct connection that trusts the default certificate authorities. */
  readonly egress: Egress | null;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** How long to wait for the first content of a response. Null for no limit. */
  readonly firstContentTimeoutMs: number | null;
  /** Hosts other than the provider's own that we may download generated files from. */
  readonly assetHosts: readonly string[];
  /** The keys, deployments or regions that share the provider's calls. Empty if the provider has no pool. */
  readonly members: readonly MemberConfig[];
}

/** A member of a pool. It inherits its provider's settings and can override them, but has no members of its own. */
export interface MemberConfig extends ProviderConfig {
  readonly member: string;
  readonly weight: number;
  /** Members with the same account share its limits. Null if the member has limits of its own. */
  readonly account: string | null;
}

/**
 * Where a catalog row comes from. If several rows exist for a model, gateway.yaml has priority over an import, and an
 * import over the starter catalog.
 */
export type RowSource = 'file' | 'import' | 'starter';

/** A model in the catalog. Amounts are in nano-dollars. */
export interface CatalogRow extends ModelProperties, UnitPrices {
  readonly id: string;
  readonly source: RowSource;
  readonly kind: Kind;
  /** Prices per token. Null if this model doesn't charge for tokens. */
  readonly price: Price | null;
  /** Prices for calls with more than `tokens` input tokens, in ascending order. */
  readonly aboveTokens: readonly { readonly tokens: number; readonly price: Price }[];
  /** The factors for token prices in other service tiers, in millionths. */
  readonly tierMillionths: Readonly<Record<string, bigint>>;
  /** The price for each use of a tool that the vendor runs, in nano-dollars. */
  readonly perToolUseNanos: Readonly<Record<string, bigint>>;
  readonly imageInputNanos: bigint | null;
  readonly perSearchNanos: bigint | null;
}

/** A model that we try before a tier's own models, but only for a share of the tier's conversations. */
export interface Canary {
  readonly model: string;
  /** A fraction between 0 and 1. */
  readonly share: number;
}

export interface Config {
  readonly server: ServerConfig;
  readonly temporal: TemporalConfig;
  readonly tracing: TracingConfig | null;
  /**
   * The server accepts any of these tokens, and commands send the first one. Without any, one is created at the first
   * start and stored in the data directory.
   */
  readonly adminTokens: readonly string[];
  /**
   * The scheme and host that browsers use to reach the gateway, without a trailing slash. Null to use the host of the
   * request.
   */
  readonly publicUrl: string | null;
  readonly oidc: OidcConfig | null;
  /**
   * The origins of web pages that may call the routes for virtual keys. `*` allows all origins, and an empty list
   * allows none.
   */
  readonly corsOrigins: readonly string[];
  readonly providers: Readonly<Record<string, ProviderConfig>>;
  readonly models: Readonly<Record<string, CatalogRow>>;
  readonly tiers: Tiers;
  /** Maps the names of tiers in `tiers` to their canaries. */
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
  /** How long we keep the error messages of failed attempts. */
  readonly errorRetentionMs: number;
  readonly refusedCallRetentionMs: number;
  readonly memory: {
    readonly idleMs: number;
    readonly recallDeadlineMs: number;
    /** The backoff of learning batches. */
    readonly retry: { readonly initialMs: number; readonly factor: number; readonly maxMs: number };
  };
  readonly localEmbedder: {
    /** Models that the gateway runs itself. If there are any, pass the configuration through `withLocalEmbedder`. */
    readonly models: readonly LocalModel[];
    /** A folder with the models' files that the operator provides. Null to use the cache directory. */
    readonly folder: string | null;
  };
  /** True if each journal write is flushed to the disk (`GATEWAY_JOURNAL_SYNC=on`). */
  readonly journalSync: boolean;
  /**
   * True if no provider is configured. Start the demo vendor in that case, and use `demoConfig` to add it to the
   * configuration.
   */
  readonly demo: boolean;
  /**
   * Warnings about settings that are valid but probably a mistake. Each warning is a single line, and starts by saying
   * where the setting comes from.
   */
  readonly warnings: readonly string[];
}

/** The identity provider for signing in to the console (OpenID Connect). */
export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  /** Null for public clients, which have no secret and rely on PKCE. */
  readonly clientSecret: string | null;
  /** E-mail domains, in lower case. Everybody with a verified address in one of them gets an account. */
  readonly allowedDomains: readonly string[];
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** `auto` selects text if standard output is a terminal, and JSON otherwise. */
export type LogFormat = 'auto' | 'json' | 'text';

export interface ServerConfig {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
  readonly apiProcesses: number;
  /** How much memory a process may use for request bodies at the same time, in bytes. */
  readonly bodyMemoryBytes: number;
  /**
   * After the stop signal, the process keeps serving calls for this long but already reports that it isn't ready, so
   * that load balancers can take it out before it rejects anything.
   */
  readonly stopDelayMs: number;
  /** After the stop delay, running calls and durable work have this long to finish before we abort them. */
  readonly stopTimeoutMs: number;
  /** Where `/metrics` is available without a token. Null for nowhere. */
  readonly metricsAddress: { readonly host: string; readonly port: number } | null;
}

/** Where we send traces, and which requests we trace (docs/traces.md). */
export interface TracingConfig {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly resource: Readonly<Record<string, string>>;
  /**
   * `ratio` is the share of requests to trace. If `followsParent` is true and a request has a `traceparent`, the caller
   * decides instead.
   */
  readonly sampler: { readonly ratio: number; readonly followsParent: boolean };
}

export interface TemporalConfig {
  /** With `dev`, the gateway runs its own dev server. */
  readonly mode: 'off' | 'external' | 'dev';
  readonly address: string | null;
  /** Null only if the gateway runs its own dev server. The namespace is then derived from the data directory. */
  readonly namespace: string | null;
  /** Creates the namespace if it doesn't exist. The dev server always does this. */
  readonly createNamespace: boolean;
  readonly apiKey: string | null;
  /** Contains the paths of the TLS files, which we don't read until we connect. Null to connect without TLS. */
  readonly tls: TemporalTls | null;
  /**
   * Keys of 32 bytes in base64. The first one encrypts payloads, and all of them can decrypt. If the list is empty,
   * payloads aren't encrypted.
   */
  readonly payloadKeys: readonly string[];
  readonly workerBuildId: string | null;
  /** The base URL of the web UI of an external server, without a trailing slash. */
  readonly uiUrl: string | null;
}

export interface TemporalTls {
  readonly serverName: string | null;
  readonly caFile: string | null;
  readonly certificateFile: string | null;
  readonly keyFile: string | null;
}

/** Thrown if there are errors in the settings. Lists all of them with their locations, one per line. */
export class ConfigError extends Error {
  readonly errors: readonly string[];

  constructor(errors: readonly string[]) {
    super(errors.join('\n'));
    this.name = 'ConfigError';
    this.errors = errors;
  }
}
