/**
 * Catalog fill (shapes 21): models that stand in when no provider of the project serves any model of the chain.
 *
 * - For a tier: models of the same kind, cheapest first. A tier whose known models are of another kind than the route's is not filled: what
 *   stood in would be of another kind too, or fail. `auto` names no models, so the route's kind counts alone.
 * - For a model id: models with the same tail at other providers, in file order; none of another kind than the route's. Chat is what a row is
 *   that does not say, so it may be any.
 */
import type { Route } from '../core/call.ts';
import type { Catalog, CatalogModel, Kind } from './catalog.ts';
import { splitModelId } from './catalog.ts';
import type { Resolution } from './rules.ts';

const routeKinds: Readonly<Record<Route, Kind>> = {
  chat: 'chat',
  messages: 'chat',
  responses: 'chat',
  embeddings: 'embeddings',
  moderations: 'moderations',
  rerank: 'rerank',
  images: 'images',
  speech: 'speech',
  video: 'video',
};

export interface FillRequest {
  readonly catalog: Catalog;
  readonly route: Route;
  readonly resolution: Resolution;
  /** The caller named no tier itself. */
  readonly isAuto: boolean;
}

/** Ids that may stand in, best first; whether they are served and permitted is for the caller to look at. */
export function findFill({ catalog, route, resolution, isAuto }: FillRequest): readonly string[] {
  switch (resolution.kind) {
    case 'nothing':
      return [];
    case 'model': {
      const tails = new Set(resolution.ids.map((id) => splitModelId(id)?.model ?? id));
      const isFitting = (id: string): boolean => ['chat', routeKinds[route]].includes(catalog.models.get(id)?.kind ?? 'chat');
      return [...tails]
        .flatMap((tail) => catalog.idsByBareName.get(tail) ?? [])
        .filter((id) => !resolution.ids.includes(id) && isFitting(id));
    }
    case 'tier': {
      const kind = routeKinds[route];
      const known = resolution.ids.flatMap((id) => catalog.models.get(id)?.kind ?? []);
      if (!isAuto && known.length > 0 && !known.includes(kind)) return [];
      return cheapestFirst(catalog, kind).filter((id) => !resolution.ids.includes(id));
    }
    default:
      return resolution satisfies never;
  }
}

/** Orders by catalog: an imported catalog has thousands of rows, and a call must not wait for them to be sorted. */
const orders = new WeakMap<Catalog, Map<Kind, readonly string[]>>();

function cheapestFirst(catalog: Catalog, kind: Kind): readonly string[] {
  const ofCatalog = orders.get(catalog) ?? new Map<Kind, readonly string[]>();
  orders.set(catalog, ofCatalog);
  const known = ofCatalog.get(kind);
  if (known) return known;
  const ids = [...catalog.models]
    .filter(([, model]) => model.kind === kind)
    .sort(([, left], [, right]) => comparePrices(left, right))
    .map(([id]) => id);
  ofCatalog.set(kind, ids);
  return ids;
}

/** By input and output price together, then by what a search or a unit costs; a model without any price comes last. */
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
