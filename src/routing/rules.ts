/** Which models a call may use: pure functions of the catalog, the project and the key. See docs/architecture/routing-and-failover.md. */
import { isDialect, type TextRoute, type Tiers } from '../core/call.ts';
import type { ResponsesSupport } from '../core/candidate.ts';
import type { Catalog, CatalogModel, CatalogProvider } from './catalog.ts';
import { splitModelId } from './catalog.ts';

/** Routing settings of an application. */
export interface ApplicationRouting extends MediaTiers {
  /** Override the project's tiers by name. */
  readonly tiers: Tiers;
}

/** Chains of media models. */
export interface MediaTiers {
  readonly imageTiers?: Tiers;
  readonly speechTiers?: Tiers;
  readonly transcriptionTiers?: Tiers;
}

/** Routing settings of a project. */
export interface ProjectRouting extends MediaTiers {
  /** Providers the project may use; null for all. */
  readonly providers: readonly string[] | null;
  /** Override the configuration's tiers by name. */
  readonly tiers: Tiers;
  /** Models and providers that are called last. */
  readonly retired: readonly string[];
  /** Null for the configuration's setting. */
  readonly catalogFill: boolean | null;
  /** By name; applications without settings are not listed. */
  readonly applications: ReadonlyMap<string, ApplicationRouting>;
}

/** The catalog, and who uses it. */
export interface RoutingView {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  /** The application that calls. */
  readonly source: string;
}

/** What a name refers to. `unknown` is neither a tier nor a model. A tier may be empty, a model has at least one id. */
export type Resolution =
  | { readonly kind: 'tier' | 'model'; readonly ids: readonly string[] }
  | { readonly kind: 'unknown'; readonly ids: readonly [] };

/** A tier takes precedence over a model of the same name. Entries of a tier are ids or bare names; unknown entries stay, to be reported as skipped. */
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

/** The application's chain of that name, else the project's, else the configuration's; null when there is no such tier. */
export function findTier({ catalog, project, source }: RoutingView, name: string): readonly string[] | null {
  const application = project.applications.get(source);
  if (application && Object.hasOwn(application.tiers, name)) return application.tiers[name] ?? null;
  if (Object.hasOwn(project.tiers, name)) return project.tiers[name] ?? null;
  return catalog.tiers.get(name) ?? null;
}

/** Names of the tiers of text routes that the application may use. */
export function tierNames({ catalog, project, source }: RoutingView): string[] {
  const ofApplication = project.applications.get(source)?.tiers ?? {};
  return [...new Set([...catalog.tiers.keys(), ...Object.keys(project.tiers), ...Object.keys(ofApplication)])];
}

/** A full id unchanged, or the catalog ids with this bare name, which may contain slashes too (`meta/llama`). */
function findIds(catalog: Catalog, name: string): readonly string[] {
  const parts = splitModelId(name);
  if (parts && (catalog.models.has(name) || catalog.providers.has(parts.provider))) return [name];
  return catalog.idsByBareName.get(name) ?? [];
}

/** Whether any of the configured providers is open to the project. */
export function hasProvider({ providers }: ProjectRouting, configured: ReadonlyMap<string, unknown>): boolean {
  return providers === null ? configured.size > 0 : providers.some((name) => configured.has(name));
}

/** Why a model cannot serve `route`; null when it can. Reasons are recorded with the call. */
export function findSkipReason({ catalog, project }: RoutingView, route: TextRoute, id: string): string | null {
  const name = splitModelId(id)?.provider;
  const provider = name === undefined ? undefined : catalog.providers.get(name);
  if (name === undefined || provider === undefined) return 'unknown_provider';
  if (project.providers !== null && !project.providers.includes(name)) return 'provider_not_in_project';
  // A vendor of another dialect serves the call on its own route.
  const isNative = route === 'responses' && findResponsesSupport(provider, catalog.models.get(id)) !== 'translated';
  const vendorRoute = isDialect(route) || (route === 'responses' && !isNative) ? provider.dialect : route;
  if (!provider.serves.includes(vendorRoute)) return 'route_not_served';
  return catalog.models.get(id)?.serves?.includes(vendorRoute) === false ? 'route_not_for_model' : null;
}

/** How a model serves calls of responses. */
export function findResponsesSupport({ serves, responses }: CatalogProvider, model: CatalogModel | undefined): ResponsesSupport {
  if (!serves.includes('responses') || model?.serves?.includes('responses') === false) return 'translated';
  return model?.serves ? 'native' : (responses ?? 'native');
}

/**
 * Whether a key's allow-list permits a model. It lists model ids, bare names, and tiers, which permit all of their models to calls that request
 * the tier. `requested` are the names the call used: `auto` and the tier it was resolved to.
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
