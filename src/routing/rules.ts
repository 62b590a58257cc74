/**
 * Decides which models a call can use, with pure functions of the catalog, the project and the key. See
 * docs/architecture/routing-and-failover.md.
 */
import { type Caller, isDialect, type TextRoute, type Tiers } from '../core/call.ts';
import type { ResponsesSupport } from '../core/candidate.ts';
import { type Catalog, type CatalogModel, type CatalogProvider, splitModelId } from './catalog.ts';

export interface ApplicationRouting extends MediaTiers {
  /** The application's own tiers. They replace tiers of the project that have the same name. */
  readonly tiers: Tiers;
}

export interface MediaTiers {
  readonly imageTiers?: Tiers;
  readonly speechTiers?: Tiers;
  readonly transcriptionTiers?: Tiers;
}

export interface ProjectRouting extends MediaTiers {
  /** The providers that the project may use. Null if it can use all of them. */
  readonly providers: readonly string[] | null;
  /** The project's own tiers. They replace tiers of the configuration that have the same name. */
  readonly tiers: Tiers;
  /** The names of models and providers that we only try after all others. */
  readonly retired: readonly string[];
  /** Only providers with all of these tags get the project's calls. */
  readonly requiredTags: readonly string[];
  /** Turns catalog fill on or off. If this is null, the configuration decides. */
  readonly catalogFill: boolean | null;
  /** Applications with settings, by name. All others are missing. */
  readonly applications: ReadonlyMap<string, ApplicationRouting>;
}

export interface RoutingView {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  readonly source: string;
}

/**
 * What a requested name refers to. If it's neither a tier nor a model, it's `unknown`. A tier can be empty, but a model
 * always has an id.
 */
export type Resolution =
  | { readonly kind: 'tier' | 'model'; readonly ids: readonly string[] }
  | { readonly kind: 'unknown'; readonly ids: readonly [] };

/**
 * Finds out what a requested name means. If a tier and a model share the name, the tier wins. A tier may contain ids
 * and bare names. Unknown ones are kept, so that we can report them as skipped.
 */
export function resolveModel(view: RoutingView, requested: string): Resolution {
  const { catalog } = view;
  const tier = findTier(view, requested);
  if (tier) {
    const ids = tier.flatMap((name) => {
      const matches = findIds(catalog, name);
      return matches.length === 0 ? [name] : matches;
    });
    return { kind: 'tier', ids };
  }
  const ids = findIds(catalog, requested);
  if (ids.length > 0) return { kind: 'model', ids };
  return splitModelId(requested) ? { kind: 'model', ids: [requested] } : { kind: 'unknown', ids: [] };
}

/**
 * Looks for the tier in the application, then in the project, and then in the configuration. Returns null if there's no
 * tier with this name.
 */
export function findTier({ catalog, project, source }: RoutingView, name: string): readonly string[] | null {
  const application = project.applications.get(source);
  if (application && Object.hasOwn(application.tiers, name)) return application.tiers[name] ?? null;
  if (Object.hasOwn(project.tiers, name)) return project.tiers[name] ?? null;
  return catalog.tiers.get(name) ?? null;
}

/** Lists the names of the text tiers that the application may use. */
export function tierNames({ catalog, project, source }: RoutingView): string[] {
  const ofApplication = project.applications.get(source)?.tiers ?? {};
  return [...new Set([...catalog.tiers.keys(), ...Object.keys(project.tiers), ...Object.keys(ofApplication)])];
}

/** Resolves a full id or a bare name to catalog ids. Bare names can contain slashes, too (`meta/llama`). */
export function findIds(catalog: Catalog, name: string): readonly string[] {
  const parts = splitModelId(name);
  if (parts && (catalog.models.has(name) || catalog.providers.has(parts.provider))) return [name];
  return catalog.idsByBareName.get(name) ?? [];
}

/** Checks whether the project may use any of the configured providers. */
export function hasProvider({ providers }: ProjectRouting, configured: ReadonlyMap<string, unknown>): boolean {
  return providers === null ? configured.size > 0 : providers.some((name) => configured.has(name));
}

/**
 * The tags that a provider has to have. They're the ones that the project requires and the ones that the key requires.
 */
interface Requirement extends Pick<RoutingView, 'catalog'> {
  readonly project: Pick<ProjectRouting, 'requiredTags'>;
  readonly caller: Pick<Caller, 'requiredTags'>;
}

/** The parts of a request that decide whether a project's calls can use a model. */
export interface ServingView extends Requirement {
  readonly project: Pick<ProjectRouting, 'providers' | 'requiredTags'>;
}

const noTags: readonly string[] = [];

/** Returns true if the project or the key requires any tags. */
export function requiresTags({ project, caller }: Pick<Requirement, 'project' | 'caller'>): boolean {
  return project.requiredTags.length > 0 || (caller.requiredTags ?? noTags).length > 0;
}

/** Returns the required tags that a provider doesn't have. */
export function findMissingTags({ catalog, project, caller }: Requirement, provider: string): readonly string[] {
  if (!requiresTags({ project, caller })) return noTags;
  const { requiredTags = noTags } = caller;
  const tags = catalog.tags.get(provider);
  if (tags === null) return noTags;
  return [...new Set([...project.requiredTags, ...requiredTags])].filter((tag) => !tags?.includes(tag));
}

/**
 * Returns the reason why a model can't serve `route`, or null if it can. The reason is recorded with the call. It's
 * only `tags_missing` if there's no other reason.
 */
export function findSkipReason(view: ServingView, route: TextRoute, id: string): string | null {
  const { catalog, project } = view;
  const name = splitModelId(id)?.provider;
  const provider = name === undefined ? undefined : catalog.providers.get(name);
  if (name === undefined || provider === undefined) return 'unknown_provider';
  if (project.providers !== null && !project.providers.includes(name)) return 'provider_not_in_project';
  // A provider with a different dialect serves the call on its own dialect's route.
  const isNative = route === 'responses' && findResponsesSupport(provider, catalog.models.get(id)) !== 'translated';
  const vendorRoute = isDialect(route) || (route === 'responses' && !isNative) ? provider.dialect : route;
  if (!provider.serves.includes(vendorRoute)) return 'route_not_served';
  if (catalog.models.get(id)?.serves?.includes(vendorRoute) === false) return 'route_not_for_model';
  return findMissingTags(view, name).length > 0 ? 'tags_missing' : null;
}

/** Determines how a model serves calls to `/v1/responses`. */
export function findResponsesSupport({ serves, responses }: CatalogProvider, model: CatalogModel | undefined): ResponsesSupport {
  if (!serves.includes('responses') || model?.serves?.includes('responses') === false) return 'translated';
  return model?.serves ? 'native' : (responses ?? 'native');
}

/**
 * Returns true if a key's allow-list permits a model. The list contains model ids, bare names and tiers. A tier permits
 * its models only for calls that request the tier. `requested` are the names that the call used, including the tier
 * that we chose for `auto`.
 */
export function isPermitted(allowed: readonly string[] | null, requested: readonly string[], id: string): boolean {
  if (allowed === null || allowed.includes(id) || requested.some((name) => allowed.includes(name))) return true;
  const bareName = splitModelId(id)?.model;
  return bareName !== undefined && allowed.includes(bareName);
}

export function isRetired(project: ProjectRouting, id: string): boolean {
  const provider = splitModelId(id)?.provider ?? '';
  return project.retired.includes(id) || project.retired.includes(provider);
}
