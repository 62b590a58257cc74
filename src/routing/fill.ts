/**
 * Catalog fill finds substitutes for a chain if none of the project's providers serves any of its models.
 *
 * The substitutes for a tier are models of the route's kind, cheapest first. If we know the tier's models and all of
 * them are of another kind, we don't fill the tier. `auto` doesn't name any models, so only the route's kind matters.
 *
 * The substitutes for a model id are models with the same name at other providers, in the order of the file. They have
 * to be of the route's kind, or of the kind chat, which rows without a kind get by default. There are no substitutes
 * for embedding models, because vectors of different models can't be compared, and two models may differ even if they
 * have the same name.
 */
import { kindOf, type Route } from '../core/call.ts';
import { type Catalog, type CatalogModel, type Kind, splitModelId } from './catalog.ts';
import type { Resolution } from './rules.ts';

export interface FillRequest {
  readonly catalog: Catalog;
  readonly route: Route;
  readonly resolution: Resolution;
  readonly isAuto: boolean;
}

/**
 * Returns the ids of substitutes, best first. Some of them may not be usable, because we don't check routes and
 * permissions here.
 */
export function findFill({ catalog, route, resolution, isAuto }: FillRequest): readonly string[] {
  switch (resolution.kind) {
    case 'unknown':
      return [];
    case 'model': {
      if (route === 'embeddings') return [];
      const names = new Set(resolution.ids.map((id) => splitModelId(id)?.model ?? id));
      const isFitting = (id: string): boolean => ['chat', kindOf(route)].includes(catalog.models.get(id)?.kind ?? 'chat');
      return [...names]
        .flatMap((name) => catalog.idsByBareName.get(name) ?? [])
        .filter((id) => !resolution.ids.includes(id) && isFitting(id));
    }
    case 'tier': {
      const kind = kindOf(route);
      const kinds = resolution.ids.flatMap((id) => catalog.models.get(id)?.kind ?? []);
      if (!isAuto && kinds.length > 0 && !kinds.includes(kind)) return [];
      return cheapestFirst(catalog, kind).filter((id) => !resolution.ids.includes(id));
    }
    default:
      return resolution satisfies never;
  }
}

/**
 * Caches the sorted ids of each catalog. Sorting the thousands of rows of an imported catalog for each call would take
 * too long.
 */
const orders = new WeakMap<Catalog, Map<Kind, readonly string[]>>();

function cheapestFirst(catalog: Catalog, kind: Kind): readonly string[] {
  const ofCatalog = orders.get(catalog) ?? new Map<Kind, readonly string[]>();
  orders.set(catalog, ofCatalog);
  const cached = ofCatalog.get(kind);
  if (cached) return cached;
  const ids = [...catalog.models]
    .filter(([, model]) => model.kind === kind)
    .sort(([, left], [, right]) => comparePrices(left, right))
    .map(([id]) => id);
  ofCatalog.set(kind, ids);
  return ids;
}

/** Compares the sums of input and output prices, then the prices per search or unit. Unpriced models come last. */
function comparePrices(left: CatalogModel, right: CatalogModel): number {
  const [a, b] = [pricesOf(left), pricesOf(right)];
  if (!a || !b) return (a ? 0 : 1) - (b ? 0 : 1);
  return Number(a.tokens !== b.tokens ? a.tokens - b.tokens : a.units - b.units);
}

function pricesOf({ price, unitPrices }: CatalogModel): { tokens: bigint; units: bigint } | null {
  const { perImageNanos, perMillionCharactersNanos, perSecondNanos } = unitPrices;
  const unit = perImageNanos ?? perMillionCharactersNanos ?? perSecondNanos ?? null;
  if (price === null && unit === null) return null;
  return { tokens: price === null ? 0n : price.inputNanos + price.outputNanos, units: unit ?? price?.perSearchNanos ?? 0n };
}
