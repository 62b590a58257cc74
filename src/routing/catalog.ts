/**
 * The providers, priced models and tiers of the deployment. The catalog is built from the configuration, and a reload
 * replaces all of it.
 */
import { type Dialect, isDialect, type MediaRoute, type Route, type Tiers } from '../core/call.ts';
import type { ModelProperties, ResponsesSupport } from '../core/candidate.ts';
import type { Price, TokenPrice, UnitPrices } from '../core/pricing.ts';
import { buildPool, type Pool, type PoolSource } from './pools.ts';

export type Kind = 'chat' | 'embeddings' | 'moderations' | 'rerank' | 'images' | 'speech' | 'transcriptions' | 'video';

export interface CatalogModel extends ModelProperties {
  readonly kind: Kind;
  /** The price per token. Null if it's unknown or the model doesn't charge for tokens. */
  readonly price: Price | null;
  readonly unitPrices: UnitPrices;
}

/** Rows without a `kind` are chat models. */
export interface CatalogSourceRow extends PricedRow, Partial<UnitPrices>, Partial<ModelProperties> {
  readonly maxOutputTokens: number | null;
}

export interface PricedRow {
  readonly kind?: Kind;
  readonly price: TokenPrice | null;
  readonly aboveTokens?: Price['above'];
  readonly perSearchNanos?: bigint | null;
  readonly imageInputNanos?: bigint | null;
  readonly tierMillionths?: Price['tierMillionths'];
  readonly perToolUseNanos?: Price['perToolUseNanos'];
}

/** The parts of the configuration that routing uses. `models` and `tiers` are in the order of gateway.yaml. */
export interface CatalogSource {
  readonly providers: Readonly<
    Record<
      string,
      Omit<CatalogProvider, 'dialect'> & {
        readonly dialect: string;
        readonly members?: readonly PoolSource[];
        readonly speechShape?: string;
      }
    >
  >;
  readonly models: Readonly<Record<string, CatalogSourceRow>>;
  readonly tiers: Tiers;
  readonly canaries?: Readonly<Record<string, Canary>>;
  readonly imageTiers?: Tiers;
  readonly speechTiers?: Tiers;
  readonly transcriptionTiers?: Tiers;
  /** The default providers for media calls that don't name a provider. */
  readonly defaults?: {
    readonly imageProvider: string | null;
    readonly speechProvider: string | null;
    readonly transcriptionProvider?: string | null;
    readonly videoProvider: string | null;
    readonly videoModel: string | null;
  };
}

/** A model that is being tried out in a tier. The given share of conversations tries it first. */
export interface Canary {
  readonly model: string;
  /** Between 0 and 1. */
  readonly share: number;
}

export interface MediaRouting {
  readonly tiers: ReadonlyMap<string, readonly string[]>;
  readonly defaultProvider: string | null;
  /** The model for calls that don't name one. */
  readonly defaultModel: string | null;
}

export interface CatalogProvider {
  readonly dialect: Dialect;
  /** A provider has a single dialect, so this never contains both `chat` and `messages`. */
  readonly serves: readonly Route[];
  /** Whether the provider serves the responses route natively. If this isn't set, we derive it from `serves`. */
  readonly responses?: ResponsesSupport;
  /** Null for the local embedder, which all projects may use no matter which tags they require. */
  readonly tags?: readonly string[] | null;
}

export interface Catalog {
  /** Providers by name, except for those of dialect `gemini`, because they only serve videos. */
  readonly providers: ReadonlyMap<string, CatalogProvider>;
  readonly models: ReadonlyMap<string, CatalogModel>;
  readonly tiers: ReadonlyMap<string, readonly string[]>;
  /** By provider. */
  readonly pools: ReadonlyMap<string, Pool>;
  /** By tier name. */
  readonly canaries: ReadonlyMap<string, Canary>;
  /** Routes by provider. Unlike `providers`, this includes providers that only serve media routes. */
  readonly served: ReadonlyMap<string, readonly Route[]>;
  /** The tags of each provider in `served`. Null for a provider that may be used no matter which tags are required. */
  readonly tags: ReadonlyMap<string, readonly string[] | null>;
  readonly media: Readonly<Record<MediaRoute, MediaRouting>>;
  /** The providers whose speech models are voices, which become part of the vendor's URL. */
  readonly voiceProviders: ReadonlySet<string>;
  /** Maps model names without the provider to ids, e.g. `gpt-4o-mini` -> [`openai/gpt-4o-mini`, …]. */
  readonly idsByBareName: ReadonlyMap<string, readonly string[]>;
}

export function buildCatalog(source: CatalogSource): Catalog {
  const { providers, models, tiers, canaries = {}, imageTiers = {}, speechTiers = {}, transcriptionTiers = {}, defaults } = source;
  const inferenceProviders = new Map<string, CatalogProvider>();
  for (const [name, { dialect, serves, responses }] of Object.entries(providers)) {
    if (isDialect(dialect)) inferenceProviders.set(name, { dialect, serves, ...(responses && { responses }) });
  }
  const catalogModels = new Map<string, CatalogModel>();
  const idsByBareName = new Map<string, string[]>();
  for (const [id, row] of Object.entries(models)) {
    const { kind = 'chat', maxOutputTokens, maxInputTokens = null, contextWindow = null, imageTokens = null } = row;
    const { traits = {}, serves = null, takes = null, firstContentTimeoutMs = null } = row;
    const { perImageNanos = null, perMillionCharactersNanos = null, perSecondNanos = null } = row;
    const unitPrices = { perImageNanos, perMillionCharactersNanos, perSecondNanos };
    const limits = { maxOutputTokens, maxInputTokens, contextWindow, imageTokens, firstContentTimeoutMs };
    catalogModels.set(id, { kind, price: toPrice(row), unitPrices, ...limits, traits, serves, takes });
    const { model } = splitModelId(id) ?? { model: id };
    const ids = idsByBareName.get(model);
    if (ids) ids.push(id);
    else idsByBareName.set(model, [id]);
  }
  return {
    providers: inferenceProviders,
    models: catalogModels,
    tiers: new Map(Object.entries(tiers)),
    pools: new Map(
      Object.entries(providers).flatMap(([name, { members = [] }]) => (members.length === 0 ? [] : [[name, buildPool(name, members)]])),
    ),
    canaries: new Map(Object.entries(canaries)),
    served: new Map(Object.entries(providers).map(([name, { serves }]) => [name, serves])),
    tags: new Map(Object.entries(providers).map(([name, { tags = [] }]) => [name, tags])),
    media: {
      images: mediaRouting(imageTiers, defaults?.imageProvider),
      speech: mediaRouting(speechTiers, defaults?.speechProvider),
      transcriptions: mediaRouting(transcriptionTiers, defaults?.transcriptionProvider),
      video: mediaRouting({}, defaults?.videoProvider, defaults?.videoModel),
    },
    voiceProviders: new Set(Object.entries(providers).flatMap(([name, { speechShape }]) => (speechShape === 'voice' ? [name] : []))),
    idsByBareName,
  };
}

function mediaRouting(tiers: Tiers, defaultProvider: string | null = null, defaultModel: string | null = null): MediaRouting {
  return { tiers: new Map(Object.entries(tiers)), defaultProvider, defaultModel };
}

const free: TokenPrice = { inputNanos: 0n, outputNanos: 0n, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n };

/**
 * Returns the price of tokens and searches, or null if it's unknown. Models that charge per search have free tokens,
 * and moderation models without a price are free (docs/vendors.md).
 */
export function toPrice(row: PricedRow): Price | null {
  const { kind, price, aboveTokens = [], perSearchNanos = null, imageInputNanos = null, tierMillionths, perToolUseNanos } = row;
  const tokens = price ?? (perSearchNanos !== null || kind === 'moderations' ? free : null);
  if (tokens === null) return null;
  return {
    ...tokens,
    ...(perSearchNanos !== null && { perSearchNanos }),
    ...(imageInputNanos !== null && { imageInputNanos }),
    ...(aboveTokens.length > 0 && { above: aboveTokens }),
    ...(hasMembers(tierMillionths) && { tierMillionths }),
    ...(hasMembers(perToolUseNanos) && { perToolUseNanos }),
  };
}

function hasMembers(record: Readonly<Record<string, bigint>> | undefined): record is Readonly<Record<string, bigint>> {
  return record !== undefined && Object.keys(record).length > 0;
}

/** Splits a model id at the first slash. Returns null if there's no provider or no model. */
export function splitModelId(id: string): { provider: string; model: string } | null {
  const slash = id.indexOf('/');
  if (slash <= 0 || slash === id.length - 1) return null;
  return { provider: id.slice(0, slash), model: id.slice(slash + 1) };
}
