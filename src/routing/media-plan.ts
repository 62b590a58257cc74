/**
 * Selects the model for a media call. The request can name a `<provider>/<model>`, a tier, or a model without its
 * provider. For a tier we use its first permitted model, and for a model without a provider the default provider.
 * There's only one model, because media calls have no failover.
 */
import { randomInt } from 'node:crypto';
import type { Caller, MediaRoute } from '../core/call.ts';
import { connectionKey, type MediaCandidate } from '../core/candidate.ts';
import { hasModelForm } from '../dialects/media/image-speech.ts';
import type { Breakers } from '../failover/breaker.ts';
import { type Catalog, splitModelId } from './catalog.ts';
import { findFill } from './fill.ts';
import { explainNoRoute, lacksTags, noRoute, quoteName, refusalOf } from './no-route.ts';
import { type MemberLoads, orderMembers } from './pools.ts';
import { findMissingTags, hasProvider, isPermitted, isRetired, type MediaTiers, type ProjectRouting } from './rules.ts';

export interface MediaPlanRequest {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  readonly source: string;
  readonly caller: Caller;
  readonly route: MediaRoute;
  /** Null to use the default model of the route. */
  readonly requestedModel: string | null;
  /** The default for projects that don't set catalog fill. */
  readonly catalogFill: boolean;
  /** True if there's a cost ceiling, so that models without a price are skipped. */
  readonly requiresPrice?: boolean;
  /** `breakers` and `loads` are missing if we just check what the project could use, without sending a request. */
  readonly breakers?: Breakers;
  readonly loads?: MemberLoads;
}

/** How error messages refer to the media routes (docs/api/reference.md#no-route). */
const mediaLabels: Readonly<Record<MediaRoute, string>> = {
  images: 'image',
  speech: 'tts',
  transcriptions: 'transcription',
  video: 'video',
};

/** Chooses the model for a media call. Throws `no_route` (docs/api/reference.md#no-route). */
export function planMedia(request: MediaPlanRequest): MediaCandidate {
  const { catalog, project, caller, route } = request;
  const label = mediaLabels[route];
  const asked = request.requestedModel ?? catalog.media[route].defaultModel ?? label;
  if (!hasProvider(project, catalog.served))
    throw noRoute('no providers configured', `the project has no provider for ${quoteName(asked)}`);
  const serving = new Set([...catalog.served.keys()].filter((name) => isServing(request, name)));
  if (serving.size === 0) throw noRoute(`no ${label} provider configured`, `none of the project's providers serves ${quoteName(asked)}`);
  const providers = new Set([...serving].filter((name) => findMissingTags(request, name).length === 0));
  const lacking = (names: Iterable<string>) =>
    lacksTags(
      asked,
      [...names].map((provider) => ({ provider, lacks: findMissingTags(request, provider) })),
    );
  if (providers.size === 0) throw lacking(serving);

  const { requested, ids } = resolve(request, { serving, providers });
  const isServed = (id: string): boolean => providers.has(splitModelId(id)?.provider ?? '');
  const untagged = ids.map((id) => splitModelId(id)?.provider ?? '').filter((name) => serving.has(name) && !providers.has(name));
  if (untagged.length > 0 && !ids.some(isServed)) throw lacking(untagged);
  const served = ids.filter((id) => isServed(id) && (request.requiresPrice !== true || isPriced(catalog, id)));
  if (served.length === 0) {
    const reason = ids.some(isServed) ? 'price_unknown' : ids.length === 0 ? null : 'route_not_served';
    throw noRoute(undefined, explainNoRoute(requested, reason), refusalOf(reason));
  }
  const open = served.filter((id) => isPermitted(catalog, caller.models, [requested], id));
  if (open.length === 0) {
    const message = `model not permitted for this key: ${requested.slice(0, maxNameLength)}`;
    throw noRoute(message, explainNoRoute(requested, 'not_permitted_for_key'), refusalOf('not_permitted_for_key'));
  }
  return pickCandidate(
    open.map((id) => toCandidate(catalog, id)),
    request,
  );
}

/**
 * Picks the candidate for a media call. Models of unhealthy providers come after the others, and retired models come
 * last, as in plans of text calls. Only the picked model takes a probe slot of its circuit breaker.
 */
function pickCandidate(open: readonly MediaCandidate[], request: MediaPlanRequest): MediaCandidate {
  const { project, caller, breakers } = request;
  const current = open.filter(({ id }) => !isRetired(project, id));
  const candidates = (current.length === 0 ? open.slice(0, 1) : current).flatMap((candidate) => withMembers(candidate, request));
  const isHealthy = (candidate: MediaCandidate): boolean =>
    candidates.length === 1 || !breakers || breakers.tryAcquire(caller.projectId, connectionKey(candidate));
  const chosen = candidates.find(isHealthy) ?? candidates[0];
  if (!chosen) throw new Error('the plan of a media call has no model');
  return chosen;
}

/**
 * Media calls don't belong to a conversation, so we use a random hash. The order then only depends on the weights and
 * the current load.
 */
function withMembers(candidate: MediaCandidate, { catalog, loads }: MediaPlanRequest): MediaCandidate[] {
  const pool = loads && catalog.pools.get(candidate.provider);
  if (!pool) return [candidate];
  return orderMembers(pool, { hash: randomInt(2 ** 32), member: null }, loads).map((member) => ({ ...candidate, member }));
}

function isPriced(catalog: Catalog, id: string): boolean {
  const row = catalog.models.get(id);
  return row !== undefined && (row.price !== null || Object.values(row.unitPrices).some((price) => price !== null));
}

const maxNameLength = 256;

function isServing({ catalog, project, route }: MediaPlanRequest, name: string): boolean {
  return (catalog.served.get(name)?.includes(route) ?? false) && (project.providers?.includes(name) ?? true);
}

/**
 * The providers that the project may use for a route. Unlike `providers`, `serving` includes providers that lack
 * required tags.
 */
interface MediaProviders {
  readonly serving: ReadonlySet<string>;
  readonly providers: ReadonlySet<string>;
}

/** Resolves the requested name to model ids. If a tier and a model have the same name, the tier wins. */
function resolve(request: MediaPlanRequest, { serving, providers }: MediaProviders): { requested: string; ids: readonly string[] } {
  const { catalog, route } = request;
  const { defaultProvider, defaultModel } = catalog.media[route];
  const requested = request.requestedModel ?? defaultModel;
  if (requested === null) throw noRoute(undefined, 'the request does not name a model, and no default model is configured');
  const tier = findMediaTier(request, requested);
  if (tier) return { requested, ids: fillTier(request, tier, providers) };
  const provider = splitModelId(requested)?.provider;
  if (provider !== undefined && !serving.has(provider)) {
    const message = `unknown ${mediaLabels[route]} provider '${provider.slice(0, maxNameLength)}'`;
    throw noRoute(message, `the project has no provider ${quoteName(provider)} that serves this route`, refusalOf('unknown_provider'));
  }
  assertModelForm(request, requested, provider);
  if (provider !== undefined) return { requested, ids: [requested] };
  // Fall back to the first allowed provider if the project may not use the default one.
  const [first = ''] = providers;
  return { requested, ids: [`${defaultProvider !== null && providers.has(defaultProvider) ? defaultProvider : first}/${requested}`] };
}

/**
 * Only speech and transcription models may have a slash in their name, e.g. `canopylabs/orpheus-v1`. A voice may not,
 * because it becomes part of the vendor's URL. Throws `no_route`.
 */
function assertModelForm({ catalog, route }: MediaPlanRequest, requested: string, provider: string | undefined): void {
  const allowsSlashes = (route === 'speech' && !catalog.voiceProviders.has(provider ?? '')) || route === 'transcriptions';
  if (allowsSlashes ? hasModelForm(requested, { maxSegments: Number.POSITIVE_INFINITY }) : hasModelForm(requested)) return;
  const form = allowsSlashes ? 'a name, whose parts between slashes must not be empty, "." or ".."' : 'a name without a slash';
  throw noRoute(undefined, `${quoteName(requested)} must be <provider>/<model>, or ${form}`);
}

/**
 * The application's tiers override those of the project, which override those of the configuration. Returns null if
 * none of them has a tier with this name.
 */
function findMediaTier({ catalog, project, source, route }: MediaPlanRequest, name: string): readonly string[] | null {
  for (const tiers of [mediaTiers(project.applications.get(source), route), mediaTiers(project, route)])
    if (tiers && Object.hasOwn(tiers, name)) return tiers[name] ?? null;
  return catalog.media[route].tiers.get(name) ?? null;
}

export function mediaTierNames({ catalog, project, source, route }: Omit<MediaPlanRequest, 'requestedModel'>): string[] {
  const overrides = [mediaTiers(project, route), mediaTiers(project.applications.get(source), route)];
  return [...new Set([...catalog.media[route].tiers.keys(), ...overrides.flatMap((tiers) => Object.keys(tiers ?? {}))])];
}

function mediaTiers(owner: MediaTiers | undefined, route: MediaRoute) {
  switch (route) {
    case 'images':
      return owner?.imageTiers;
    case 'speech':
      return owner?.speechTiers;
    case 'transcriptions':
      return owner?.transcriptionTiers;
    case 'video':
      return undefined;
  }
}

function fillTier({ catalog, project, route, catalogFill }: MediaPlanRequest, ids: readonly string[], providers: ReadonlySet<string>) {
  const isServed = ids.some((id) => providers.has(splitModelId(id)?.provider ?? ''));
  if (isServed || !(project.catalogFill ?? catalogFill)) return ids;
  return findFill({ catalog, route, resolution: { kind: 'tier', ids }, isAuto: false });
}

function toCandidate(catalog: Catalog, id: string): MediaCandidate {
  const { provider, model } = splitModelId(id) ?? { provider: '', model: id };
  const row = catalog.models.get(id);
  const { price = null, unitPrices = noUnitPrices, imageTokens = null, takes = null } = row ?? {};
  return { id, provider, model, price, unitPrices, imageTokens, takes };
}

const noUnitPrices = { perImageNanos: null, perMillionCharactersNanos: null, perSecondNanos: null };
