/**
 * Selects the models for the name that a call has requested, and explains which ones were skipped.
 */
import type { Caller, PlanEntry, TextRoute } from '../core/call.ts';
import { splitModelId } from './catalog.ts';
import { findFill } from './fill.ts';
import { findMissingTags, findSkipReason, findTier, isPermitted, type RoutingView, resolveModel } from './rules.ts';

export interface SelectRequest extends RoutingView {
  readonly caller: Caller;
  readonly route: TextRoute;
  /** The default for projects that don't set catalog fill. */
  readonly catalogFill: boolean;
  readonly canaries?: readonly string[];
  /** True if there's a cost ceiling, so that models without a price are skipped. */
  readonly requiresPrice?: boolean;
}

export interface Selection {
  readonly open: readonly string[];
  readonly isFilled: boolean;
  readonly skipped: readonly PlanEntry[];
  /** True if a provider of the project serves a requested model, but the key doesn't permit it. */
  readonly isDeniedByKey: boolean;
  readonly isUnknown: boolean;
  /** Set if the tier has a canary. If `isTried` is true, the canary comes first. */
  readonly canary?: { readonly tier: string; readonly isTried: boolean };
}

/** There can be thousands of substitutes. Limits how many we use, and how many skipped ones we record. */
const maxFill = 20;

/** `requested` is the chosen tier if the call is to `auto`. */
export function selectModels(request: SelectRequest, requested: string, isAuto: boolean): Selection {
  const { caller, route, catalogFill, catalog, project } = request;
  const resolved = resolveModel(request, requested);
  // Catalog fill can find models for `auto` even if the tier isn't configured.
  const resolution = isAuto && resolved.kind === 'unknown' ? ({ kind: 'tier', ids: [] } as const) : resolved;
  const names = isAuto ? ['auto', requested] : [requested];
  const isUnknown = resolution.kind === 'unknown';

  const open: string[] = [];
  const skipped: PlanEntry[] = [];
  let isDeniedByKey = false;
  let isServed = false;
  for (const id of new Set(resolution.ids)) {
    const unserved = findSkipReason(request, route, id);
    const forbidden = unserved ?? (isPermitted(catalog, caller.models, names, id) ? null : 'not_permitted_for_key');
    const reason = forbidden ?? (isUnpriced(request, id) ? 'price_unknown' : null);
    if (reason === null) open.push(id);
    else skipped.push(toSkipped(request, id, reason));
    isServed ||= unserved === null;
    isDeniedByKey ||= unserved === null && forbidden !== null;
  }
  if (isServed || !(project.catalogFill ?? catalogFill))
    return withCanary(request, requested, names, { open, skipped, isDeniedByKey, isUnknown, isFilled: false });

  // A key that permits a model by its name doesn't permit substitutes, because those are different models. A key that
  // permits a tier does.
  const permitting = resolution.kind === 'tier' ? names : [];
  const untagged: PlanEntry[] = [];
  for (const id of findFill({ catalog, route, resolution, isAuto })) {
    const reason = findSkipReason(request, route, id);
    if (reason === 'tags_missing' && untagged.length < maxFill) untagged.push({ ...toSkipped(request, id, reason), filled: true });
    if (reason !== null || isUnpriced(request, id)) continue;
    if (isPermitted(catalog, caller.models, permitting, id)) open.push(id);
    else if (skipped.length < maxFill) skipped.push({ model: id, skipped: 'not_permitted_for_key', filled: true });
    isDeniedByKey ||= open.length === 0;
    if (open.length === maxFill) break;
  }
  // Only report the substitutes that lack tags if we haven't found any usable ones.
  return { open, skipped: open.length > 0 ? skipped : [...skipped, ...untagged], isDeniedByKey, isUnknown, isFilled: true };
}

/**
 * Moves a tier's canary to the front if the call tries it. Keys that permit the tier also permit its canary. A tier
 * that the project or application overrides has no canary.
 */
function withCanary(request: SelectRequest, tier: string, names: readonly string[], selection: Selection): Selection {
  const { catalog, caller, route, canaries } = request;
  const id = catalog.canaries.get(tier)?.model;
  const { open, skipped } = selection;
  if (id === undefined || !canaries || open.length === 0 || findTier(request, tier) !== catalog.tiers.get(tier)) return selection;
  if (!canaries.includes(tier)) return { ...selection, canary: { tier, isTried: false } };
  const forbidden = isPermitted(catalog, caller.models, names, id) ? null : 'not_permitted_for_key';
  const reason = findSkipReason(request, route, id) ?? forbidden ?? (isUnpriced(request, id) ? 'price_unknown' : null);
  if (reason === null) return { ...selection, open: [...new Set([id, ...open])], canary: { tier, isTried: true } };
  return skipped.some(({ model }) => model === id) ? selection : { ...selection, skipped: [...skipped, toSkipped(request, id, reason)] };
}

function isUnpriced({ requiresPrice, catalog }: SelectRequest, id: string): boolean {
  return requiresPrice === true && !catalog.models.get(id)?.price;
}

function toSkipped(request: SelectRequest, id: string, reason: string): PlanEntry {
  const entry = { model: id, skipped: reason };
  return reason === 'tags_missing' ? { ...entry, lacks: findMissingTags(request, splitModelId(id)?.provider ?? '') } : entry;
}
