/** Selects the models that a call can use for the requested name, and gives a reason for each skipped model. */
import type { Caller, PlanEntry, TextRoute } from '../core/call.ts';
import { splitModelId } from './catalog.ts';
import { findFill } from './fill.ts';
import { findMissingTags, findSkipReason, findTier, isPermitted, type RoutingView, resolveModel } from './rules.ts';

export interface SelectRequest extends RoutingView {
  readonly caller: Caller;
  readonly route: TextRoute;
  /** Turns on catalog fill for projects that don't have their own setting. */
  readonly catalogFill: boolean;
  /** Tiers whose canary this call tries. May be absent. */
  readonly canaries?: readonly string[];
  /** True if a cost ceiling applies to the call. Models without a known price are then skipped. */
  readonly requiresPrice?: boolean;
}

export interface Selection {
  readonly open: readonly string[];
  /** True if catalog fill chose these models to replace the requested one. */
  readonly isFilled: boolean;
  readonly skipped: readonly PlanEntry[];
  /** True if one of the project's providers serves a model that the key doesn't permit. */
  readonly isDeniedByKey: boolean;
  /** True if the name is neither a tier nor a model. */
  readonly isUnknown: boolean;
  /**
   * The tier with the canary, if there is one. If `isTried` is true, the canary is the first model of the selection.
   */
  readonly canary?: { readonly tier: string; readonly isTried: boolean };
}

/** There can be thousands of substitutes, so give up after this many have failed. */
const maxFill = 20;

/** Selects the models that a requested name stands for. If it was `auto`, pass the tier that was chosen. */
export function selectModels(request: SelectRequest, requested: string, isAuto: boolean): Selection {
  const { caller, route, catalogFill, catalog, project } = request;
  const resolved = resolveModel(request, requested);
  // Catalog fill can provide models for `auto`, even if nobody has configured its tier.
  const resolution = isAuto && resolved.kind === 'unknown' ? ({ kind: 'tier', ids: [] } as const) : resolved;
  const names = isAuto ? ['auto', requested] : [requested];
  const isUnknown = resolution.kind === 'unknown';

  const open: string[] = [];
  const skipped: PlanEntry[] = [];
  let isDeniedByKey = false;
  let isServed = false;
  for (const id of new Set(resolution.ids)) {
    const unserved = findSkipReason(request, route, id);
    const forbidden = unserved ?? (isPermitted(caller.models, names, id) ? null : 'not_permitted_for_key');
    const reason = forbidden ?? (isUnpriced(request, id) ? 'price_unknown' : null);
    if (reason === null) open.push(id);
    else skipped.push(toSkipped(request, id, reason));
    isServed ||= unserved === null;
    isDeniedByKey ||= unserved === null && forbidden !== null;
  }
  if (isServed || !(project.catalogFill ?? catalogFill))
    return withCanary(request, requested, names, { open, skipped, isDeniedByKey, isUnknown, isFilled: false });

  // A key can't permit a substitute by the requested model's name, because the substitute isn't that model. Only names
  // of tiers permit substitutes.
  const permitting = resolution.kind === 'tier' ? names : [];
  const untagged: PlanEntry[] = [];
  for (const id of findFill({ catalog, route, resolution, isAuto })) {
    const reason = findSkipReason(request, route, id);
    if (reason === 'tags_missing' && untagged.length < maxFill) untagged.push({ ...toSkipped(request, id, reason), filled: true });
    if (reason !== null || isUnpriced(request, id)) continue;
    if (isPermitted(caller.models, permitting, id)) open.push(id);
    else if (skipped.length < maxFill) skipped.push({ model: id, skipped: 'not_permitted_for_key', filled: true });
    isDeniedByKey ||= open.length === 0;
    if (open.length === maxFill) break;
  }
  // Now that there are substitutes, nobody needs to know which models lacked tags.
  return { open, skipped: open.length > 0 ? skipped : [...skipped, ...untagged], isDeniedByKey, isUnknown, isFilled: true };
}

/**
 * Puts a tier's canary first if the call tries it. A key that permits the tier also permits its canary. There's no
 * canary if the project or the application overrides the tier.
 */
function withCanary(request: SelectRequest, tier: string, names: readonly string[], selection: Selection): Selection {
  const { catalog, caller, route, canaries } = request;
  const id = catalog.canaries.get(tier)?.model;
  const { open, skipped } = selection;
  if (id === undefined || !canaries || open.length === 0 || findTier(request, tier) !== catalog.tiers.get(tier)) return selection;
  if (!canaries.includes(tier)) return { ...selection, canary: { tier, isTried: false } };
  const forbidden = isPermitted(caller.models, names, id) ? null : 'not_permitted_for_key';
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
