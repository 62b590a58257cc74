/**
 * Catalog fill finds substitutes for a chain if no provider of the project serves any of its models.
 *
 * - For a tier, these are models of the route's kind, cheapest first. We don't fill a tier if all its known models are
 *   of another kind. `auto` names no models, so only the route's kind counts.
 * - For a model id, these are models with the same name at other providers, in the order of the file. Their kind has to
 *   be the route's or chat, because rows without a kind default to chat. We don't do this for embeddings, because vectors
 *   of two models can't be compared, and two models with the same name may still be different.
 */
import { kindOf, type Route } from '../core/call.ts';
import { type Catalog, type CatalogModel, type Kind, splitModelId } from './catalog.ts';
import type { Resolution } from './rules.ts';

export interface FillRequest {
  readonly catalog: Catalog;
  readonly route: Route;
  readonly resolution: Resolution;
  /** True if the caller requested `auto` and not a tier. */
  readonly isAuto: boolean;
}

/**
 * Returns the ids of substitutes, best first. They may still have to be skipped, so check that they are served and
 * permitted.
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
 * Caches the sorted ids of each catalog. An imported catalog has thousands of rows, so sorting them for each call would
 * take too long.
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

/**
 * Compares by the sum of the input and output price, and then by the price per search or unit. Models without a price
 * come last.
 */
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
