/**
 * Decides which models a call may use. These are pure functions of the catalog, the project and the key. See
 * docs/architecture/routing-and-failover.md.
 */
import { type Caller, isDialect, type TextRoute, type Tiers } from '../core/call.ts';
import type { ResponsesSupport } from '../core/candidate.ts';
import type { Catalog, CatalogModel, CatalogProvider } from './catalog.ts';
import { splitModelId } from './catalog.ts';

export interface ApplicationRouting extends MediaTiers {
  /** Chains that override the project's tiers of the same name. */
  readonly tiers: Tiers;
}

export interface MediaTiers {
  readonly imageTiers?: Tiers;
  readonly speechTiers?: Tiers;
  readonly transcriptionTiers?: Tiers;
}

export interface ProjectRouting extends MediaTiers {
  /** The providers that the project may use. Null for all. */
  readonly providers: readonly string[] | null;
  /** Chains that override the configuration's tiers of the same name. */
  readonly tiers: Tiers;
  /** The models and providers that are called last. */
  readonly retired: readonly string[];
  /** Only providers with all of these tags get calls of the project. */
  readonly requiredTags: readonly string[];
  /** Null to use the configuration's setting. */
  readonly catalogFill: boolean | null;
  /** The applications by name. Applications without settings aren't listed. */
  readonly applications: ReadonlyMap<string, ApplicationRouting>;
}

export interface RoutingView {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  readonly source: string;
}

/**
 * What a name refers to. `unknown` is neither a tier nor a model. A tier may be empty, but a model has at least one id.
 */
export type Resolution =
  | { readonly kind: 'tier' | 'model'; readonly ids: readonly string[] }
  | { readonly kind: 'unknown'; readonly ids: readonly [] };

/**
 * Resolves a requested name. A tier takes precedence over a model of the same name. The entries of a tier are ids or
 * bare names, and we keep unknown entries so that we can report them as skipped.
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
 * Looks for the tier in the application, then in the project and then in the configuration. Returns null if there's no
 * tier of that name.
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

/**
 * Returns a full id as it is, or looks up the catalog ids with this bare name, which may contain slashes too
 * (`meta/llama`).
 */
export function findIds(catalog: Catalog, name: string): readonly string[] {
  const parts = splitModelId(name);
  if (parts && (catalog.models.has(name) || catalog.providers.has(parts.provider))) return [name];
  return catalog.idsByBareName.get(name) ?? [];
}

/** Reports whether the project may use any of the configured providers. */
export function hasProvider({ providers }: ProjectRouting, configured: ReadonlyMap<string, unknown>): boolean {
  return providers === null ? configured.size > 0 : providers.some((name) => configured.has(name));
}

/** The tags that the project and the key require together. */
interface Requirement extends Pick<RoutingView, 'catalog'> {
  readonly project: Pick<ProjectRouting, 'requiredTags'>;
  readonly caller: Pick<Caller, 'requiredTags'>;
}

/** What decides whether a project's calls can use a model at all. */
export interface ServingView extends Requirement {
  readonly project: Pick<ProjectRouting, 'providers' | 'requiredTags'>;
}

const noTags: readonly string[] = [];

/** Reports whether some providers may be excluded because they don't have a tag. */
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
 * Returns why a model can't serve `route`, or null if it can. We record the reasons with the call. The reason is
 * `tags_missing` only if nothing else keeps the model from serving the route.
 */
export function findSkipReason(view: ServingView, route: TextRoute, id: string): string | null {
  const { catalog, project } = view;
  const name = splitModelId(id)?.provider;
  const provider = name === undefined ? undefined : catalog.providers.get(name);
  if (name === undefined || provider === undefined) return 'unknown_provider';
  if (project.providers !== null && !project.providers.includes(name)) return 'provider_not_in_project';
  // A vendor with another dialect serves the call on a route of its own.
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
 * Reports whether a key's allow-list permits a model. The list contains model ids, bare names, and tiers. A tier
 * permits all its models, but only to calls that request the tier. `requested` contains the names that the call used,
 * including the tier that we chose for `auto`.
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
