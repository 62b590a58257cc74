/** What the deployment can call: providers, models with prices, tiers. Built from the configuration, replaced as a whole at reload. */
import type { Dialect, MediaRoute, ModelTraits, Route } from '../core/call.ts';
import type { Price, TokenPrice, UnitPrices } from '../core/pricing.ts';

/** What a model is for. */
export type Kind = 'chat' | 'embeddings' | 'moderations' | 'rerank' | 'images' | 'speech' | 'video';

export interface CatalogModel {
  readonly kind: Kind;
  /** Null: a call's cost cannot be told. */
  readonly price: Price | null;
  /** What media models are charged by beside it. */
  readonly unitPrices: UnitPrices;
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens: number | null;
  readonly traits: ModelTraits;
  /** The routes at its vendor that the model is for; null: all that its provider serves. */
  readonly serves: readonly Route[] | null;
}

/** A row of the configuration as routing reads it; `kind` is chat where none is given. */
export interface CatalogSourceRow extends PricedRow, Partial<UnitPrices> {
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens?: number | null;
  readonly traits?: ModelTraits;
  readonly serves?: readonly Route[] | null;
}

/** The parts of a row that make its price. */
export interface PricedRow {
  readonly kind?: Kind;
  readonly price: TokenPrice | null;
  readonly aboveTokens?: Price['above'];
  readonly perSearchNanos?: bigint | null;
}

/** The part of the configuration that routing needs; `models` and `tiers` in file order. */
export interface CatalogSource {
  readonly providers: Readonly<Record<string, { readonly dialect: string; readonly serves: readonly Route[] }>>;
  readonly models: Readonly<Record<string, CatalogSourceRow>>;
  readonly tiers: Readonly<Record<string, readonly string[]>>;
  readonly imageTiers?: Readonly<Record<string, readonly string[]>>;
  readonly speechTiers?: Readonly<Record<string, readonly string[]>>;
  /** Providers that are asked where a caller names none. */
  readonly defaults?: {
    readonly imageProvider: string | null;
    readonly speechProvider: string | null;
    readonly videoProvider: string | null;
    readonly videoModel: string | null;
  };
}

/** What routing knows of a media route. */
export interface MediaRouting {
  readonly tiers: ReadonlyMap<string, readonly string[]>;
  readonly defaultProvider: string | null;
  /** What is meant where a caller names no model at all. */
  readonly defaultModel: string | null;
}

/** A provider as routing needs it. */
export interface CatalogProvider {
  readonly dialect: Dialect;
  /** What it can be asked for; of `chat` and `messages` only the route of its own dialect. */
  readonly serves: readonly Route[];
}

export interface Catalog {
  /** By name; those of inference routes (a provider of the dialect gemini makes videos only). */
  readonly providers: ReadonlyMap<string, CatalogProvider>;
  readonly models: ReadonlyMap<string, CatalogModel>;
  readonly tiers: ReadonlyMap<string, readonly string[]>;
  /** What each provider serves, also those of media routes alone. */
  readonly served: ReadonlyMap<string, readonly Route[]>;
  readonly media: Readonly<Record<MediaRoute, MediaRouting>>;
  /** Catalog ids by what stands behind their provider: `gpt-4o-mini` -> [`openai/gpt-4o-mini`, …]. */
  readonly idsByBareName: ReadonlyMap<string, readonly string[]>;
}

export function buildCatalog({ providers, models, tiers, imageTiers = {}, speechTiers = {}, defaults }: CatalogSource): Catalog {
  const inferenceProviders = new Map<string, CatalogProvider>();
  for (const [name, { dialect, serves }] of Object.entries(providers)) {
    if (dialect === 'chat' || dialect === 'messages') inferenceProviders.set(name, { dialect, serves });
  }
  const catalogModels = new Map<string, CatalogModel>();
  const idsByBareName = new Map<string, string[]>();
  for (const [id, row] of Object.entries(models)) {
    const { kind = 'chat', maxOutputTokens, maxInputTokens = null, traits = {}, serves = null } = row;
    const { perImageNanos = null, perMillionCharactersNanos = null, perSecondNanos = null } = row;
    const unitPrices = { perImageNanos, perMillionCharactersNanos, perSecondNanos };
    catalogModels.set(id, { kind, price: toPrice(row), unitPrices, maxOutputTokens, maxInputTokens, traits, serves });
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
      video: mediaRouting({}, defaults?.videoProvider, defaults?.videoModel),
    },
    idsByBareName,
  };
}

function mediaRouting(
  tiers: Readonly<Record<string, readonly string[]>>,
  defaultProvider: string | null = null,
  defaultModel: string | null = null,
): MediaRouting {
  return { tiers: new Map(Object.entries(tiers)), defaultProvider, defaultModel };
}

const free: TokenPrice = { inputNanos: 0n, outputNanos: 0n, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n };

/**
 * What a call of the model costs by tokens and searches. A model that is charged by the search has tokens for nothing; moderations are free
 * unless their row says otherwise (vendor facts 1.4).
 */
export function toPrice({ kind, price, aboveTokens = [], perSearchNanos = null }: PricedRow): Price | null {
  const tokens = price ?? (perSearchNanos !== null || kind === 'moderations' ? free : null);
  if (tokens === null) return null;
  return {
    ...tokens,
    ...(perSearchNanos !== null && { perSearchNanos }),
    ...(aboveTokens.length > 0 && { above: aboveTokens }),
  };
}

/** `<provider>/<model>`: only the first slash splits; null when there is none, or nothing on one side of it. */
export function splitModelId(id: string): { provider: string; model: string } | null {
  const slash = id.indexOf('/');
  if (slash <= 0 || slash === id.length - 1) return null;
  return { provider: id.slice(0, slash), model: id.slice(slash + 1) };
}
