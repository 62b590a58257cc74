/** Which models a call may use: pure rules over the catalog, the project and the key (specification 1, 5.6, 7.5; shapes 21). */
import type { TextRoute } from '../core/call.ts';
import type { Catalog } from './catalog.ts';
import { splitModelId } from './catalog.ts';

/** An application's part in routing. */
export interface ApplicationRouting extends MediaTiers {
  /** Laid over the project's tiers by name. */
  readonly tiers: Readonly<Record<string, readonly string[]>>;
}

/** Chains of media models; absent where there are none. */
export interface MediaTiers {
  readonly imageTiers?: Readonly<Record<string, readonly string[]>>;
  readonly speechTiers?: Readonly<Record<string, readonly string[]>>;
}

/** A project's part in routing. */
export interface ProjectRouting extends MediaTiers {
  /** Providers the project may use; null means all. */
  readonly providers: readonly string[] | null;
  /** The project's own tiers, laid over those of the file by name. */
  readonly tiers: Readonly<Record<string, readonly string[]>>;
  /** Models and providers the project has retired: called last, never refused. */
  readonly retired: readonly string[];
  /** Null: as the configuration says. */
  readonly catalogFill: boolean | null;
  /** By name; an application that is not there changes nothing. */
  readonly applications: ReadonlyMap<string, ApplicationRouting>;
}

/** Whose view of the catalog it is. */
export interface RoutingView {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
  /** The application that calls. */
  readonly source: string;
}

/** What a name stands for. `nothing` is neither tier nor model; a tier may be empty, a model is never without ids. */
export type Resolution =
  | { readonly kind: 'tier' | 'model'; readonly ids: readonly string[] }
  | { readonly kind: 'nothing'; readonly ids: readonly [] };

/** A tier name wins over a model of the same name. A tier's own entries are ids or tails; one that is neither stays, to be told of. */
export function resolveModel(view: RoutingView, asked: string): Resolution {
  const { catalog } = view;
  const tier = findTier(view, asked);
  if (tier) {
    const ids = tier.flatMap((name) => {
      const found = findIds(catalog, name);
      return found.length === 0 ? [name] : found;
    });
    return { kind: 'tier', ids };
  }
  const ids = findIds(catalog, asked);
  if (ids.length > 0) return { kind: 'model', ids };
  return splitModelId(asked) ? { kind: 'model', ids: [asked] } : { kind: 'nothing', ids: [] };
}

/** The application's chain of that name, else the project's, else the file's; null when it is no tier. */
export function findTier({ catalog, project, source }: RoutingView, name: string): readonly string[] | null {
  const application = project.applications.get(source);
  if (application && Object.hasOwn(application.tiers, name)) return application.tiers[name] ?? null;
  if (Object.hasOwn(project.tiers, name)) return project.tiers[name] ?? null;
  return catalog.tiers.get(name) ?? null;
}

/** A full id as it is, or the catalog ids with that tail; tails may hold slashes too (`meta/llama`). */
function findIds(catalog: Catalog, name: string): readonly string[] {
  const parts = splitModelId(name);
  if (parts && (catalog.models.has(name) || catalog.providers.has(parts.provider))) return [name];
  return catalog.idsByBareName.get(name) ?? [];
}

/** Why a model cannot be asked on `route`, null when it can. Reasons are recorded with the call. */
export function findSkipReason({ catalog, project }: RoutingView, route: TextRoute, translates: boolean, id: string): string | null {
  const name = splitModelId(id)?.provider;
  const provider = name === undefined ? undefined : catalog.providers.get(name);
  if (name === undefined || provider === undefined) return 'unknown_provider';
  if (project.providers !== null && !project.providers.includes(name)) return 'provider_not_in_project';
  const isTranslatable = route === 'chat' || route === 'messages';
  if (isTranslatable && provider.dialect !== route && !translates) return 'other_dialect';
  // A vendor of the other dialect is asked on the route of its own.
  const asked = isTranslatable ? provider.dialect : route;
  if (!provider.serves.includes(asked)) return 'route_not_served';
  return catalog.models.get(id)?.serves?.includes(asked) === false ? 'route_not_for_model' : null;
}

/**
 * A key's allow-list names model ids, tails of ids, or tiers; a tier on the list opens all of its models to calls that ask for the tier.
 * `asked` are the names the call goes by: `auto` and the tier it stands for.
 */
export function isPermitted(allowed: readonly string[] | null, asked: readonly string[], id: string): boolean {
  if (allowed === null || allowed.includes(id) || asked.some((name) => allowed.includes(name))) return true;
  const tail = splitModelId(id)?.model;
  return tail !== undefined && allowed.includes(tail);
}

export function isRetired(project: ProjectRouting, id: string): boolean {
  const provider = splitModelId(id)?.provider ?? '';
  return project.retired.includes(id) || project.retired.includes(provider);
}
