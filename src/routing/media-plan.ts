/**
 * The one model that answers a media call (specification 4.6, shapes 21): of `<provider>/<model>`, of a tier of the route, or of a bare name,
 * which is a model of the default provider. Of a tier the first open model is taken: there is no failover.
 */
import type { Caller, MediaCandidate, MediaRoute } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { Catalog } from './catalog.ts';
import { splitModelId } from './catalog.ts';
import { findFill } from './fill.ts';
import type { ProjectRouting } from './rules.ts';
import { isPermitted, isRetired } from './rules.ts';

export interface MediaPlanRequest {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  /** The application that calls. */
  readonly source: string;
  readonly caller: Caller;
  readonly route: MediaRoute;
  /** Null: the route's default model. */
  readonly modelAsked: string | null;
  /** For projects that do not say themselves. */
  readonly catalogFill: boolean;
  /** A cost ceiling applies: a model whose cost cannot be told must not be asked. */
  readonly requiresPrice?: boolean;
  /** Absent: nobody is going to be called. */
  readonly breakers?: Breakers;
}

/** As the specification's sentences call the routes. */
const mediaLabels: Readonly<Record<MediaRoute, string>> = { images: 'image', speech: 'tts', video: 'video' };

/** Throws `no_route` with the specification's sentences (7.5). */
export function planMedia(request: MediaPlanRequest): MediaCandidate {
  const { catalog, caller, route } = request;
  const word = mediaLabels[route];
  if (catalog.served.size === 0) throw noRoute('no providers configured');
  const providers = new Set([...catalog.served.keys()].filter((name) => isServing(request, name)));
  if (providers.size === 0) throw noRoute(`no ${word} provider configured`);

  const { asked, ids } = resolve(request, providers);
  const isServed = (id: string): boolean => providers.has(splitModelId(id)?.provider ?? '');
  const served = ids.filter((id) => isServed(id) && (request.requiresPrice !== true || isPriced(catalog, id)));
  if (served.length === 0) throw noRoute('no models available for route');
  const open = served.filter((id) => isPermitted(caller.models, [asked], id));
  if (open.length === 0) throw noRoute(`model not permitted for this key: ${asked.slice(0, maxNameLength)}`);
  return toCandidate(catalog, pickCandidate(open, request));
}

/** As in the plans of text: retired models last, before them those whose provider is not well. Nobody is given a probe behind the best. */
function pickCandidate(open: readonly string[], { project, caller, breakers }: MediaPlanRequest): string {
  const current = open.filter((id) => !isRetired(project, id));
  const isAsked = (id: string): boolean =>
    open.length === 1 || !breakers || breakers.tryAcquire(caller.projectId, splitModelId(id)?.provider ?? '');
  return current.find(isAsked) ?? current[0] ?? open[0] ?? '';
}

function isPriced(catalog: Catalog, id: string): boolean {
  const row = catalog.models.get(id);
  return row !== undefined && (row.price !== null || Object.values(row.unitPrices).some((price) => price !== null));
}

const maxNameLength = 256;

function noRoute(message: string): Error {
  return gatewayError('no_route', { message });
}

/** The project may use the provider, and that serves the route. */
function isServing({ catalog, project, route }: MediaPlanRequest, name: string): boolean {
  return (catalog.served.get(name)?.includes(route) ?? false) && (project.providers?.includes(name) ?? true);
}

/** What the caller's words stand for, and the words themselves. A tier name wins over a model of the same name. */
function resolve(request: MediaPlanRequest, providers: ReadonlySet<string>): { asked: string; ids: readonly string[] } {
  const { catalog, route } = request;
  const { defaultProvider, defaultModel } = catalog.media[route];
  const asked = request.modelAsked ?? defaultModel;
  if (asked === null) throw noRoute('no models available for route');
  const tier = findMediaTier(request, asked);
  if (tier) return { asked, ids: fillTier(request, tier, providers) };
  const provider = splitModelId(asked)?.provider;
  if (provider !== undefined) {
    if (!providers.has(provider)) throw noRoute(`unknown ${mediaLabels[route]} provider '${provider.slice(0, maxNameLength)}'`);
    return { asked, ids: [asked] };
  }
  // A project that may not use the default provider has its own first one.
  const [first = ''] = providers;
  return { asked, ids: [`${defaultProvider !== null && providers.has(defaultProvider) ? defaultProvider : first}/${asked}`] };
}

/** The application's chain of that name, else the project's, else the file's; null when it is no tier of the route. */
function findMediaTier({ catalog, project, source, route }: MediaPlanRequest, name: string): readonly string[] | null {
  for (const tiers of [mediaTiers(project.applications.get(source), route), mediaTiers(project, route)])
    if (tiers && Object.hasOwn(tiers, name)) return tiers[name] ?? null;
  return catalog.media[route].tiers.get(name) ?? null;
}

/** Names of the tiers of a route that an application of the project may ask for. */
export function mediaTierNames({ catalog, project, source, route }: Omit<MediaPlanRequest, 'modelAsked'>): string[] {
  const own = [mediaTiers(project, route), mediaTiers(project.applications.get(source), route)];
  return [...new Set([...catalog.media[route].tiers.keys(), ...own.flatMap((tiers) => Object.keys(tiers ?? {}))])];
}

function mediaTiers(owner: Pick<ProjectRouting, 'imageTiers' | 'speechTiers'> | undefined, route: MediaRoute) {
  switch (route) {
    case 'images':
      return owner?.imageTiers;
    case 'speech':
      return owner?.speechTiers;
    case 'video':
      return undefined;
  }
}

/** The chain, or the catalog's models of the kind where no provider of the project serves any of it (shapes 21). */
function fillTier({ catalog, project, route, catalogFill }: MediaPlanRequest, ids: readonly string[], providers: ReadonlySet<string>) {
  const isServed = ids.some((id) => providers.has(splitModelId(id)?.provider ?? ''));
  if (isServed || !(project.catalogFill ?? catalogFill)) return ids;
  return findFill({ catalog, route, resolution: { kind: 'tier', ids }, isAuto: false });
}

function toCandidate(catalog: Catalog, id: string): MediaCandidate {
  const { provider, model } = splitModelId(id) ?? { provider: '', model: id };
  const row = catalog.models.get(id);
  return { id, provider, model, price: row?.price ?? null, unitPrices: row?.unitPrices ?? noUnitPrices };
}

const noUnitPrices = { perImageNanos: null, perMillionCharactersNanos: null, perSecondNanos: null };
