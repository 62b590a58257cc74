/**
 * The configuration as the rooms see it: one frozen, checked object (decisions 2). Rooms take the part they need as an argument; since most
 * of them may not import `config`, they declare that part themselves, in the same words.
 */
import type { ModelTraits } from '../core/call.ts';
import type { Price } from '../core/pricing.ts';

export type ProviderDialect = 'chat' | 'messages' | 'gemini';
export type Kind = 'chat' | 'embeddings' | 'moderations' | 'rerank' | 'images' | 'speech' | 'video';
/** What a provider can be asked for; `chat` and `messages` are the text routes of the two dialects. */
export type Served = 'chat' | 'messages' | 'embeddings' | 'responses' | 'moderations' | 'rerank' | 'images' | 'speech' | 'video';

export interface ProviderConfig {
  readonly name: string;
  /** With the version prefix, without a slash at its end. */
  readonly baseUrl: string;
  readonly apiKey: string | null;
  readonly dialect: ProviderDialect;
  readonly serves: readonly Served[];
  /** Header that carries the API key, and the word before it (`Bearer`), if any. */
  readonly auth: { readonly header: string; readonly scheme: string | null };
  readonly headers: Readonly<Record<string, string>>;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly imageShape: 'openai' | 'artifacts';
  /** Send `response_format: b64_json`; some models refuse it. */
  readonly imageResponseFormat: boolean;
  readonly speechShape: 'openai' | 'voice';
  readonly speechMediaType: string | null;
  /** How a vendor of the shape `voice` is asked. */
  readonly speech: {
    readonly voiceIn: 'path' | 'query';
    readonly path: string;
    readonly textField: string;
    readonly body: Readonly<Record<string, unknown>>;
  };
  /** Further hosts from which a file that this vendor names may be fetched. */
  readonly assetHosts: readonly string[];
}

/** Where a row of the catalog is from: gateway.yaml, `gateway catalog import`, or what is built in. The first of them wins. */
export type RowSource = 'file' | 'import' | 'starter';

/** A model of the catalog. Amounts are nano-dollars. */
export interface CatalogRow {
  /** `<provider>/<model>`. */
  readonly id: string;
  readonly source: RowSource;
  readonly kind: Kind;
  /** Null: the tokens of this model have no price. */
  readonly price: Price | null;
  /** Prices of calls whose input is longer than `tokens`; the shortest first. */
  readonly aboveTokens: readonly { readonly tokens: number; readonly price: Price }[];
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens: number | null;
  readonly traits: ModelTraits;
  /** The routes at its vendor that a model of kind chat is for; null: all that its provider serves. */
  readonly serves: readonly Served[] | null;
  readonly perImageNanos: bigint | null;
  readonly perMillionCharactersNanos: bigint | null;
  readonly perSecondNanos: bigint | null;
  readonly perSearchNanos: bigint | null;
}

/** Chains of models by tier name, first to last. */
export type Tiers = Readonly<Record<string, readonly string[]>>;

export interface Config {
  readonly server: ServerConfig;
  readonly temporal: TemporalConfig;
  /** Null: made at the first start and kept in the data directory. */
  readonly adminToken: string | null;
  readonly providers: Readonly<Record<string, ProviderConfig>>;
  readonly models: Readonly<Record<string, CatalogRow>>;
  readonly tiers: Tiers;
  readonly imageTiers: Tiers;
  readonly speechTiers: Tiers;
  readonly defaults: {
    readonly imageProvider: string | null;
    readonly speechProvider: string | null;
    readonly videoProvider: string | null;
    readonly videoModel: string | null;
  };
  readonly auto: { readonly classifier: 'rules' | 'model' | 'off' };
  readonly catalogFill: boolean;
  readonly onBudgetStoreDown: 'allow' | 'refuse';
  readonly memory: {
    readonly idleMs: number;
    readonly recallDeadlineMs: number;
    /** Waits between the tries of a learning batch. */
    readonly retry: { readonly firstMs: number; readonly factor: number; readonly longestMs: number };
  };
  /** Flush the journal to the disk at each write (`GATEWAY_JOURNAL_SYNC=on`). */
  readonly journalSync: boolean;
  /** No provider is configured anywhere: start the demo vendor and use `demoConfig`. */
  readonly demo: boolean;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

export interface ServerConfig {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  readonly logLevel: LogLevel;
  /** API processes. */
  readonly workers: number;
  /** Where traces go (`OTEL_EXPORTER_OTLP_ENDPOINT`); null for nowhere. */
  readonly otlpEndpoint: string | null;
}

export interface TemporalConfig {
  /** `dev`: the gateway finds or fetches a dev server of its own. */
  readonly mode: 'off' | 'external' | 'dev';
  readonly address: string | null;
  /** Null only with `dev`, whose namespace comes from the data directory. */
  readonly namespace: string | null;
  readonly apiKey: string | null;
  /** Null: no TLS. Files are read by whoever connects. */
  readonly tls: TemporalTls | null;
  /** 32 bytes each, in base64; the first encrypts what passes to Temporal, all of them decrypt. None: nothing is encrypted. */
  readonly payloadKeys: readonly string[];
  readonly workerBuildId: string | null;
}

export interface TemporalTls {
  readonly serverName: string | null;
  readonly caFile: string | null;
  readonly certificateFile: string | null;
  readonly keyFile: string | null;
}

/** Everything that is wrong with the settings, each fault one line with its place. */
export class ConfigError extends Error {
  readonly errors: readonly string[];

  constructor(errors: readonly string[]) {
    super(errors.join('\n'));
    this.name = 'ConfigError';
    this.errors = errors;
  }
}
