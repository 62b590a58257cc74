/**
 * Selects the models that a call can use, based on the name that it requested. If a model is skipped, the result says
 * why.
 */
import type { Caller, PlanEntry, TextRoute } from '../core/call.ts';
import { splitModelId } from './catalog.ts';
import { findFill } from './fill.ts';
import { findMissingTags, findSkipReason, findTier, isPermitted, type RoutingView, resolveModel } from './rules.ts';

export interface SelectRequest extends RoutingView {
  readonly caller: Caller;
  readonly route: TextRoute;
  /** The default for projects that haven't set catalog fill themselves. */
  readonly catalogFill: boolean;
  /** The tiers for which this call tries the canary. */
  readonly canaries?: readonly string[];
  /** True if there's a cost ceiling, in which case we skip models whose price we don't know. */
  readonly requiresPrice?: boolean;
}

export interface Selection {
  readonly open: readonly string[];
  /** True if these models come from catalog fill and replace the requested one. */
  readonly isFilled: boolean;
  readonly skipped: readonly PlanEntry[];
  /** True if one of the project's providers serves a requested model, but the key doesn't permit it. */
  readonly isDeniedByKey: boolean;
  /** True if the name is neither a tier nor a model. */
  readonly isUnknown: boolean;
  /** Set if the tier has a canary. If `isTried` is true, the canary comes first in the selection. */
  readonly canary?: { readonly tier: string; readonly isTried: boolean };
}

/**
 * There can be thousands of substitutes. We use no more than this many, and record no more than this many that were
 * skipped.
 */
const maxFill = 20;

/** Selects the models for a requested name. For calls to `auto`, pass the tier that was chosen. */
export function selectModels(request: SelectRequest, requested: string, isAuto: boolean): Selection {
  const { caller, route, catalogFill, catalog, project } = request;
  const resolved = resolveModel(request, requested);
  // For `auto`, catalog fill can find models even if nobody has configured the tier.
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

  // If a key permits the requested model by its name, that doesn't include substitutes, because they're different
  // models. Only the name of a tier does.
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
  // If there are substitutes, it doesn't matter any more which models lacked tags.
  return { open, skipped: open.length > 0 ? skipped : [...skipped, ...untagged], isDeniedByKey, isUnknown, isFilled: true };
}

/**
 * Moves a tier's canary to the front if the call tries it. A key that permits the tier also permits its canary. If the
 * project or the application overrides the tier, there's no canary.
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
