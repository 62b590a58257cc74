/** What the deployment can call: providers, models with prices, tiers. Built from the configuration, replaced as a whole at reload. */
import type { Dialect, Price } from '../core/call.ts';

export interface CatalogModel {
  readonly price: Price | null;
  readonly maxOutputTokens: number | null;
}

/** The part of the configuration that routing needs; `models` and `tiers` in file order. */
export interface CatalogSource {
  readonly providers: Readonly<Record<string, { readonly dialect: string }>>;
  readonly models: Readonly<Record<string, CatalogModel>>;
  readonly tiers: Readonly<Record<string, readonly string[]>>;
}

export interface Catalog {
  /** Dialect by name of the providers that serve text routes. */
  readonly providers: ReadonlyMap<string, Dialect>;
  readonly models: ReadonlyMap<string, CatalogModel>;
  readonly tiers: ReadonlyMap<string, readonly string[]>;
  /** Catalog ids by what stands behind their provider: `gpt-4o-mini` -> [`openai/gpt-4o-mini`, …]. */
  readonly idsByTail: ReadonlyMap<string, readonly string[]>;
}

export function buildCatalog({ providers, models, tiers }: CatalogSource): Catalog {
  const textProviders = new Map<string, Dialect>();
  for (const [name, { dialect }] of Object.entries(providers)) {
    if (dialect === 'chat' || dialect === 'messages') textProviders.set(name, dialect);
  }
  const idsByTail = new Map<string, string[]>();
  for (const id of Object.keys(models)) {
    const { model } = splitModelId(id) ?? { model: id };
    const ids = idsByTail.get(model);
    if (ids) ids.push(id);
    else idsByTail.set(model, [id]);
  }
  return { providers: textProviders, models: new Map(Object.entries(models)), tiers: new Map(Object.entries(tiers)), idsByTail };
}

/** `<provider>/<model>`: only the first slash splits; null when there is none, or nothing on one side of it. */
export function splitModelId(id: string): { provider: string; model: string } | null {
  const slash = id.indexOf('/');
  if (slash <= 0 || slash === id.length - 1) return null;
  return { provider: id.slice(0, slash), model: id.slice(slash + 1) };
}
