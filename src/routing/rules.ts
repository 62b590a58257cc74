/**
 * Decides which models a call can use. These are pure functions of the catalog, the project and the key. See
 * docs/architecture/routing-and-failover.md.
 */
import { type Caller, isDialect, type TextRoute, type Tiers } from '../core/call.ts';
import type { ResponsesSupport } from '../core/candidate.ts';
import { type Catalog, type CatalogModel, type CatalogProvider, splitModelId } from './catalog.ts';

export interface ApplicationRouting extends MediaTiers {
  /** Tiers of the application, which override tiers of the project with the same name. */
  readonly tiers: Tiers;
}

export interface MediaTiers {
  readonly imageTiers?: Tiers;
  readonly speechTiers?: Tiers;
  readonly transcriptionTiers?: Tiers;
}

export interface ProjectRouting extends MediaTiers {
  /** Null if the project may use all providers. */
  readonly providers: readonly string[] | null;
  readonly tiers: Tiers;
  /** Models and providers that we only try after all others. */
  readonly retired: readonly string[];
  /** Only providers with all of these tags get the project's calls. */
  readonly requiredTags: readonly string[];
  /** Turns catalog fill on or off. Null to use the setting in gateway.yaml. */
  readonly catalogFill: boolean | null;
  readonly applications: ReadonlyMap<string, ApplicationRouting>;
}

export interface RoutingView {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  readonly source: string;
}

/**
 * `unknown` means that the requested name is neither a tier nor a model. A tier can be empty, but a model always has an
 * id.
 */
export type Resolution =
  | { readonly kind: 'tier' | 'model'; readonly ids: readonly string[] }
  | { readonly kind: 'unknown'; readonly ids: readonly [] };

/**
 * Resolves a requested name. If a tier and a model have the same name, the tier wins. Tiers can contain names that we
 * don't know. We keep those, so that they're reported as skipped.
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
 * The application's tiers override those of the project, which override those of the configuration. Returns null if
 * none of them has a tier with this name.
 */
export function findTier({ catalog, project, source }: RoutingView, name: string): readonly string[] | null {
  const application = project.applications.get(source);
  if (application && Object.hasOwn(application.tiers, name)) return application.tiers[name] ?? null;
  if (Object.hasOwn(project.tiers, name)) return project.tiers[name] ?? null;
  return catalog.tiers.get(name) ?? null;
}

export function tierNames({ catalog, project, source }: RoutingView): string[] {
  const ofApplication = project.applications.get(source)?.tiers ?? {};
  return [...new Set([...catalog.tiers.keys(), ...Object.keys(project.tiers), ...Object.keys(ofApplication)])];
}

/** `name` is a model id, or the model's name without a provider, which can contain a slash as well (`meta/llama`). */
export function findIds(catalog: Catalog, name: string): readonly string[] {
  const parts = splitModelId(name);
  if (parts && (catalog.models.has(name) || catalog.providers.has(parts.provider))) return [name];
  return catalog.idsByBareName.get(name) ?? [];
}

export function hasProvider({ providers }: ProjectRouting, configured: ReadonlyMap<string, unknown>): boolean {
  return providers === null ? configured.size > 0 : providers.some((name) => configured.has(name));
}

interface Requirement extends Pick<RoutingView, 'catalog'> {
  readonly project: Pick<ProjectRouting, 'requiredTags'>;
  readonly caller: Pick<Caller, 'requiredTags'>;
}

export interface ServingView extends Requirement {
  readonly project: Pick<ProjectRouting, 'providers' | 'requiredTags'>;
}

const noTags: readonly string[] = [];

export function requiresTags({ project, caller }: Pick<Requirement, 'project' | 'caller'>): boolean {
  return project.requiredTags.length > 0 || (caller.requiredTags ?? noTags).length > 0;
}

export function findMissingTags({ catalog, project, caller }: Requirement, provider: string): readonly string[] {
  if (!requiresTags({ project, caller })) return noTags;
  const { requiredTags = noTags } = caller;
  const tags = catalog.tags.get(provider);
  if (tags === null) return noTags;
  return [...new Set([...project.requiredTags, ...requiredTags])].filter((tag) => !tags?.includes(tag));
}

/**
 * Returns why a model can't serve a route, or null if it can. The reason is recorded with the call. `tags_missing` is
 * only returned if nothing else is wrong.
 */
export function findSkipReason(view: ServingView, route: TextRoute, id: string): string | null {
  const { catalog, project } = view;
  const name = splitModelId(id)?.provider;
  const provider = name === undefined ? undefined : catalog.providers.get(name);
  if (name === undefined || provider === undefined) return 'unknown_provider';
  if (project.providers !== null && !project.providers.includes(name)) return 'provider_not_in_project';
  // If the provider uses the other dialect, we send the call to the route of that dialect.
  const isNative = route === 'responses' && findResponsesSupport(provider, catalog.models.get(id)) !== 'translated';
  const vendorRoute = isDialect(route) || (route === 'responses' && !isNative) ? provider.dialect : route;
  if (!provider.serves.includes(vendorRoute)) return 'route_not_served';
  if (catalog.models.get(id)?.serves?.includes(vendorRoute) === false) return 'route_not_for_model';
  return findMissingTags(view, name).length > 0 ? 'tags_missing' : null;
}

export function findResponsesSupport({ serves, responses }: CatalogProvider, model: CatalogModel | undefined): ResponsesSupport {
  if (!serves.includes('responses') || model?.serves?.includes('responses') === false) return 'translated';
  return model?.serves ? 'native' : (responses ?? 'native');
}

/**
 * Returns true if a key's allow-list permits a model. The list can contain model ids, names without a provider, and
 * tiers. A tier only permits its models for calls that request this tier. `requested` are the names that the call used,
 * including the tier that was chosen for `auto`.
 *
 * Aggregators have models whose names look like ids, e.g. `openrouter/openai/gpt-5`. An allowed `openai/gpt-5` only
 * permits these if it isn't an id itself, because there's no provider `openai`.
 */
export function isPermitted(catalog: Catalog, allowed: readonly string[] | null, requested: readonly string[], id: string): boolean {
  if (allowed === null || allowed.includes(id) || requested.some((name) => allowed.includes(name))) return true;
  const bareName = splitModelId(id)?.model;
  if (bareName === undefined || !allowed.includes(bareName)) return false;
  const provider = splitModelId(bareName)?.provider;
  return !catalog.models.has(bareName) && (provider === undefined || !catalog.served.has(provider));
}

export function isRetired(project: ProjectRouting, id: string): boolean {
  const provider = splitModelId(id)?.provider ?? '';
  return project.retired.includes(id) || project.retired.includes(provider);
}
