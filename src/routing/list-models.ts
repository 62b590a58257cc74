/** Lists the models and tiers that a key may use, for `GET /v1/models` (docs/api/reference.md#models). */
import { type Caller, type Route, type TextRoute, textRoutes } from '../core/call.ts';
import { type Catalog, type CatalogModel, splitModelId } from './catalog.ts';
import { type MediaPlanRequest, mediaTierNames, planMedia } from './media-plan.ts';
import { defaultTier } from './plan.ts';
import { findMissingTags, isPermitted, type ProjectRouting, tierNames } from './rules.ts';
import { type SelectRequest, selectModels } from './select.ts';

export interface ModelsRequest {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  readonly source: string;
  readonly caller: Caller;
  /** The default for projects that don't set catalog fill. */
  readonly catalogFill: boolean;
  /** The time of the last catalog change, which is returned as the date of all models. */
  readonly startedAt: number;
}

export interface ModelRow {
  readonly id: string;
  readonly object: 'model';
  /** Unix time in seconds. */
  readonly created: number;
  readonly owned_by: string;
}

/** Lists models, tiers and `auto`, in this order. Leaves out those that the key can't use on any route. */
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
    const isListed = owner !== undefined && isUsable(request, owner, model) && isPermitted(catalog, caller.models, [], id);
    return isListed ? row(id, owner) : [];
  });
  const openTiers = tierNames(request).filter((name) => isOpen(() => name, false));
  const tiers = [...new Set([...openTiers, ...openMediaTiers(request)])].map((name) => row(name, 'gateway'));
  return [...models, ...tiers, ...(isOpen(defaultTier, true) ? [row('auto', 'gateway')] : [])];
}

/**
 * Lists the chat models that `/v1/chat/completions` would serve, and the tiers (including `auto`) that contain any of
 * them. We leave out embedding models, because calls to them would be routed but fail.
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

/** Media tiers need a list of their own, because they can have the same names as text tiers. */
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
    return false; // The tier has no model that the key may use.
  }
}

function isUsable(request: ModelsRequest, owner: string, { kind, serves }: CatalogModel): boolean {
  const { catalog, project } = request;
  if (findMissingTags(request, owner).length > 0) return false;
  if (project.providers !== null && !project.providers.includes(owner)) return false;
  const routes: readonly Route[] = kind === 'chat' ? (serves ?? ['chat', 'messages', 'responses']) : [kind];
  return catalog.served.get(owner)?.some((route) => routes.includes(route)) ?? false;
}
