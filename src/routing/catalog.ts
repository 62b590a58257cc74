/** The providers, models with prices, and tiers of the deployment. Built from the configuration, and replaced as a whole at reload. */
import { type Dialect, isDialect, type MediaRoute, type Route, type Tiers } from '../core/call.ts';
import type { ModelTraits, ResponsesSupport } from '../core/candidate.ts';
import type { Price, TokenPrice, UnitPrices } from '../core/pricing.ts';
import type { TakeableField } from '../core/takeable-fields.ts';

/** Purpose of a model. */
export type Kind = 'chat' | 'embeddings' | 'moderations' | 'rerank' | 'images' | 'speech' | 'transcriptions' | 'video';

export interface CatalogModel {
  readonly kind: Kind;
  /** Null when the cost of a call is unknown. */
  readonly price: Price | null;
  /** Prices of the units of media models. */
  readonly unitPrices: UnitPrices;
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens: number | null;
  readonly contextWindow: number | null;
  /** Longest wait for the first content of a response. Null: as the provider. */
  readonly firstContentTimeoutMs: number | null;
  /** Upper bound for the tokens of one image; null when unknown. */
  readonly imageTokens: number | null;
  readonly traits: ModelTraits;
  /** Routes that serve the model; null for all routes of its provider. */
  readonly serves: readonly Route[] | null;
  /** Optional fields that an image or speech model accepts; null when unknown. */
  readonly takes: readonly TakeableField[] | null;
}

/** A model row of the configuration; `kind` defaults to chat. */
export interface CatalogSourceRow extends PricedRow, Partial<UnitPrices> {
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens?: number | null;
  readonly contextWindow?: number | null;
  readonly firstContentTimeoutMs?: number | null;
  readonly imageTokens?: number | null;
  readonly traits?: ModelTraits;
  readonly serves?: readonly Route[] | null;
  readonly takes?: readonly TakeableField[] | null;
}

/** The fields of a row that determine its price. */
export interface PricedRow {
  readonly kind?: Kind;
  readonly price: TokenPrice | null;
  readonly aboveTokens?: Price['above'];
  readonly perSearchNanos?: bigint | null;
  readonly imageInputNanos?: bigint | null;
  readonly tierMillionths?: Price['tierMillionths'];
  readonly perToolUseNanos?: Price['perToolUseNanos'];
}

/** The part of the configuration that routing uses; `models` and `tiers` in file order. */
export interface CatalogSource {
  readonly providers: Readonly<Record<string, Omit<CatalogProvider, 'dialect'> & { readonly dialect: string }>>;
  readonly models: Readonly<Record<string, CatalogSourceRow>>;
  readonly tiers: Tiers;
  readonly imageTiers?: Tiers;
  readonly speechTiers?: Tiers;
  readonly transcriptionTiers?: Tiers;
  /** Providers of media calls whose model names none. */
  readonly defaults?: {
    readonly imageProvider: string | null;
    readonly speechProvider: string | null;
    readonly transcriptionProvider?: string | null;
    readonly videoProvider: string | null;
    readonly videoModel: string | null;
  };
}

/** Tiers and defaults of a media route. */
export interface MediaRouting {
  readonly tiers: ReadonlyMap<string, readonly string[]>;
  readonly defaultProvider: string | null;
  /** Model of calls that name none. */
  readonly defaultModel: string | null;
}

/** The part of a provider that routing uses. */
export interface CatalogProvider {
  readonly dialect: Dialect;
  /** Routes it serves; of `chat` and `messages` only that of its dialect. */
  readonly serves: readonly Route[];
  /** By default as `serves` says. */
  readonly responses?: ResponsesSupport;
}

export interface Catalog {
  /** By name; without those of the dialect gemini, which serve only videos. */
  readonly providers: ReadonlyMap<string, CatalogProvider>;
  readonly models: ReadonlyMap<string, CatalogModel>;
  readonly tiers: ReadonlyMap<string, readonly string[]>;
  /** Routes of each provider, including those that serve only media routes. */
  readonly served: ReadonlyMap<string, readonly Route[]>;
  readonly media: Readonly<Record<MediaRoute, MediaRouting>>;
  /** Catalog ids by model name without the provider: `gpt-4o-mini` -> [`openai/gpt-4o-mini`, …]. */
  readonly idsByBareName: ReadonlyMap<string, readonly string[]>;
}

export function buildCatalog(source: CatalogSource): Catalog {
  const { providers, models, tiers, imageTiers = {}, speechTiers = {}, transcriptionTiers = {}, defaults } = source;
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
    served: new Map(Object.entries(providers).map(([name, { serves }]) => [name, serves])),
    media: {
      images: mediaRouting(imageTiers, defaults?.imageProvider),
      speech: mediaRouting(speechTiers, defaults?.speechProvider),
      transcriptions: mediaRouting(transcriptionTiers, defaults?.transcriptionProvider),
      video: mediaRouting({}, defaults?.videoProvider, defaults?.videoModel),
    },
    idsByBareName,
  };
}

function mediaRouting(tiers: Tiers, defaultProvider: string | null = null, defaultModel: string | null = null): MediaRouting {
  return { tiers: new Map(Object.entries(tiers)), defaultProvider, defaultModel };
}

const free: TokenPrice = { inputNanos: 0n, outputNanos: 0n, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n };

/**
 * Price of tokens and searches; null when unknown. Tokens are free for models charged by the search, and for moderations unless their row has a
 * price (docs/vendors.md).
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

/** Splits `<provider>/<model>` at the first slash; null when either part is missing. */
export function splitModelId(id: string): { provider: string; model: string } | null {
  const slash = id.indexOf('/');
  if (slash <= 0 || slash === id.length - 1) return null;
  return { provider: id.slice(0, slash), model: id.slice(slash + 1) };
}
