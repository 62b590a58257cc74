/** Lists the models and tiers that a key may use, for `GET /v1/models` (docs/api/reference.md#models). */
import { type Caller, type Route, type TextRoute, textRoutes } from '../core/call.ts';
import type { Catalog, CatalogModel } from './catalog.ts';
import { splitModelId } from './catalog.ts';
import type { MediaPlanRequest } from './media-plan.ts';
import { mediaTierNames, planMedia } from './media-plan.ts';
import { defaultTier } from './plan.ts';
import type { ProjectRouting } from './rules.ts';
import { findMissingTags, isPermitted, tierNames } from './rules.ts';
import type { SelectRequest } from './select.ts';
import { selectModels } from './select.ts';

export interface ModelsRequest {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  readonly source: string;
  readonly caller: Caller;
  /** Used for projects without a setting of their own. */
  readonly catalogFill: boolean;
  /** The time of the last catalog change, which we report as the date of every model. */
  readonly startedAt: number;
}

export interface ModelRow {
  readonly id: string;
  readonly object: 'model';
  /** Unix seconds. */
  readonly created: number;
  readonly owned_by: string;
}

/** Lists the catalog's models, then tiers, then `auto`. Leaves out anything that no route would serve to this key. */
export function listModels(request: ModelsRequest): ModelRow[] {
  const { catalog, caller, startedAt } = request;
  const created = Math.floor(startedAt / 1_000);
  const row = (id: string, owner: string): ModelRow => ({ id, object: 'model', created, owned_by: owner });
  const isOpen = (nameFor: (route: TextRoute) => string, isAuto: boolean): boolean =>
    textRoutes.some((route) => {
      const view: SelectRequest = { ...request, route };
      return selectModels(view, nameFor(route), isAuto).open.length > 0;
    });

  const models = [...catalog.models].flatMap(([id, model]) => {
    const owner = splitModelId(id)?.provider;
    const isListed = owner !== undefined && isUsable(request, owner, model) && isPermitted(caller.models, [], id);
    return isListed ? row(id, owner) : [];
  });
  const openTiers = tierNames(request).filter((name) => isOpen(() => name, false));
  const tiers = [...new Set([...openTiers, ...openMediaTiers(request)])].map((name) => row(name, 'gateway'));
  return [...models, ...tiers, ...(isOpen(defaultTier, true) ? [row('auto', 'gateway')] : [])];
}

/**
 * Lists the chat models that `/v1/chat/completions` would serve, and the tiers that contain one, including `auto`, so
 * that users can choose from them. A provider of chat models may also have embedding models. We route a call to these
 * too if the caller asks for it, but it would fail.
 */
export function listChatModels(request: Omit<ModelsRequest, 'startedAt'>): { tiers: string[]; models: string[] } {
  const isChatModel = (id: string) => (request.catalog.models.get(id)?.kind ?? 'chat') === 'chat';
  const isOpen = (name: string, isAuto = false) => selectModels({ ...request, route: 'chat' }, name, isAuto).open.some(isChatModel);
  const rows = listModels({ ...request, startedAt: 0 });
  const tiers = rows.filter(
    ({ id, owned_by: owner }) => owner === 'gateway' && (id === 'auto' ? isOpen(defaultTier('chat'), true) : isOpen(id)),
  );
  const models = rows.filter(({ id, owned_by: owner }) => owner !== 'gateway' && isOpen(id));
  return { tiers: tiers.map(({ id }) => id), models: models.map(({ id }) => id) };
}

/** The names may overlap with those of text tiers. */
function openMediaTiers(request: ModelsRequest): string[] {
  return (['images', 'speech', 'transcriptions'] as const).flatMap((route) => {
    const view = { ...request, route };
    return mediaTierNames(view).filter((name) => isOpenForMedia({ ...view, requestedModel: name }));
  });
}

function isOpenForMedia(request: MediaPlanRequest): boolean {
  try {
    planMedia(request);
    return true;
  } catch {
    return false; // The only error is `no_route`, so the tier has no model for this key.
  }
}

/**
 * Reports whether the project may use the model's provider, and whether the provider serves a route for models of this
 * kind and has the required tags.
 */
function isUsable(request: ModelsRequest, owner: string, { kind, serves }: CatalogModel): boolean {
  const { catalog, project } = request;
  if (findMissingTags(request, owner).length > 0) return false;
  if (project.providers !== null && !project.providers.includes(owner)) return false;
  const routes: readonly Route[] = kind === 'chat' ? (serves ?? ['chat', 'messages', 'responses']) : [kind];
  return catalog.served.get(owner)?.some((route) => routes.includes(route)) ?? false;
}
