/**
 * Catalog fill (shapes 21): models that stand in when no provider of the project serves any model of the chain.
 *
 * - For a tier: models of the same kind, cheapest first. A tier whose known models are of another kind than the route's is not filled: what
 *   stood in would be of another kind too, or fail. `auto` names no models, so the route's kind counts alone.
 * - For a model id: models with the same tail at other providers, in file order.
 */
import type { TextRoute } from '../core/call.ts';
import type { Catalog, CatalogModel, Kind } from './catalog.ts';
import { splitModelId } from './catalog.ts';
import type { Resolution } from './rules.ts';

const kindOf: Readonly<Record<TextRoute, Kind>> = {
  chat: 'chat',
  messages: 'chat',
  responses: 'chat',
  embeddings: 'embeddings',
  moderations: 'moderations',
  rerank: 'rerank',
};

export interface FillRequest {
  readonly catalog: Catalog;
  readonly route: TextRoute;
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
      return [...tails].flatMap((tail) => catalog.idsByTail.get(tail) ?? []).filter((id) => !resolution.ids.includes(id));
    }
    case 'tier': {
      const kind = kindOf[route];
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

/** By input and output price together, then by what a search costs; a model without a price comes last. */
function comparePrices({ price: left }: CatalogModel, { price: right }: CatalogModel): number {
  if (!left || !right) return (left ? 0 : 1) - (right ? 0 : 1);
  const byTokens = left.inputNanos + left.outputNanos - right.inputNanos - right.outputNanos;
  return Number(byTokens !== 0n ? byTokens : (left.perSearchNanos ?? 0n) - (right.perSearchNanos ?? 0n));
}
