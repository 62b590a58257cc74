/**
 * Checks which models of a chain a project can use, without planning a call. The console lists the usable models, and
 * marks models and tiers that can't be used.
 */
import { type MediaRoute, type TextRoute, textRoutes } from '../core/call.ts';
import type { TierKind, TierSets } from '../projects/tiers.ts';
import { type Catalog, type Kind, splitModelId } from './catalog.ts';
import { findIds, findMissingTags, findSkipReason, type ProjectRouting, type ServingView } from './rules.ts';

export interface ModelScope {
  readonly catalog: Catalog;
  readonly project: Pick<ProjectRouting, 'providers' | 'requiredTags'>;
}

export interface ModelCheck {
  /** Says why the project's calls skip this model (see `findSkipReason`). Null if they can use it. */
  readonly reason: string | null;
  readonly lacks: readonly string[];
  /** False if the model isn't in the catalog, so that its price and limits are unknown. */
  readonly isListed: boolean;
}

const mediaRoutes = { image_tiers: 'images', speech_tiers: 'speech', transcription_tiers: 'transcriptions' } as const;
const mediaKinds: readonly Kind[] = ['images', 'speech', 'transcriptions', 'video'];

/** `name` is a model id, or the model's name without a provider. */
export function checkModel(scope: ModelScope, kind: TierKind, name: string): ModelCheck {
  const { catalog } = scope;
  const view: ServingView = { ...scope, caller: { requiredTags: [] } };
  const found = kind === 'tiers' ? findIds(catalog, name) : [];
  const checks = (found.length > 0 ? found : [name]).map((id): ModelCheck => {
    const reason = kind === 'tiers' ? findTextReason(view, id) : findMediaReason(view, mediaRoutes[kind], id);
    const lacks = reason === 'tags_missing' ? findMissingTags(view, providerOf(id)) : [];
    return { reason, lacks, isListed: catalog.models.has(id) };
  });
  return checks.find(({ reason }) => reason === null) ?? checks[0] ?? { reason: 'unknown_provider', lacks: [], isListed: false };
}

/** Returns true if no configured provider has this model, including providers that the project may not use. */
export function hasUnknownProvider(catalog: Catalog, kind: TierKind, name: string): boolean {
  return !catalog.served.has(providerOf(name)) && (kind !== 'tiers' || findIds(catalog, name).length === 0);
}

export function isUsableTier(scope: ModelScope, kind: TierKind, models: readonly string[]): boolean {
  return models.some((model) => checkModel(scope, kind, model).reason === null);
}

export function listUsableModels(scope: ModelScope, kind: TierKind): string[] {
  const isOfKind = (model: Kind): boolean => (kind === 'tiers' ? !mediaKinds.includes(model) : model === mediaRoutes[kind]);
  return [...scope.catalog.models].flatMap(([id, model]) =>
    isOfKind(model.kind) && checkModel(scope, kind, id).reason === null ? [id] : [],
  );
}

export function configuredTiers({ tiers, media }: Catalog): TierSets {
  return {
    tiers: Object.fromEntries(tiers),
    image_tiers: Object.fromEntries(media.images.tiers),
    speech_tiers: Object.fromEntries(media.speech.tiers),
    transcription_tiers: Object.fromEntries(media.transcriptions.tiers),
  };
}

export function overrideTiers(inherited: TierSets, own: TierSets): TierSets {
  return {
    tiers: { ...inherited.tiers, ...own.tiers },
    image_tiers: { ...inherited.image_tiers, ...own.image_tiers },
    speech_tiers: { ...inherited.speech_tiers, ...own.speech_tiers },
    transcription_tiers: { ...inherited.transcription_tiers, ...own.transcription_tiers },
  };
}

/**
 * A text tier can use a model if it serves at least one text route, so this only returns a reason if it serves none.
 */
function findTextReason(view: ServingView, id: string): string | null {
  const reasons = textRoutes.map((route: TextRoute) => findSkipReason(view, route, id));
  if (reasons.includes(null)) return null;
  return reasons.includes('tags_missing') ? 'tags_missing' : (reasons[0] ?? null);
}

function findMediaReason(view: ServingView, route: MediaRoute, id: string): string | null {
  const { catalog, project } = view;
  const provider = providerOf(id);
  const served = catalog.served.get(provider);
  if (served === undefined) return 'unknown_provider';
  if (project.providers !== null && !project.providers.includes(provider)) return 'provider_not_in_project';
  if (!served.includes(route)) return 'route_not_served';
  return findMissingTags(view, provider).length > 0 ? 'tags_missing' : null;
}

function providerOf(id: string): string {
  return splitModelId(id)?.provider ?? '';
}
