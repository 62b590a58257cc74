/** Which models a call may use: pure rules over the catalog, the project and the key (specification 1, 5.6, 7.5; shapes 21). */
import type { Dialect } from '../core/call.ts';
import type { Catalog } from './catalog.ts';
import { splitModelId } from './catalog.ts';

/** A project's part in routing. */
export interface ProjectRouting {
  /** Providers the project may use; null means all. */
  readonly providers: readonly string[] | null;
  /** The project's own tiers, laid over those of the file by name. */
  readonly tiers: Readonly<Record<string, readonly string[]>>;
  /** Models and providers the project has retired: called last, never refused. */
  readonly retired: readonly string[];
}

/**
 * Model ids that `asked` stands for, in order: a tier's chain, a full id, or all catalog ids with that tail. Empty: it is none of these.
 * A tier name wins over a model of the same name; a tier's own entries are ids or tails, and one that is neither stays to be told of.
 */
export function resolveModel(catalog: Catalog, project: ProjectRouting, asked: string): readonly string[] {
  const tier = Object.hasOwn(project.tiers, asked) ? project.tiers[asked] : catalog.tiers.get(asked);
  if (!tier) return idsOf(catalog, asked);
  return tier.flatMap((name) => {
    const ids = idsOf(catalog, name);
    return ids.length === 0 ? [name] : ids;
  });
}

/** A full id as it is, or the catalog ids with that tail; tails may hold slashes too (`meta/llama`). */
function idsOf(catalog: Catalog, name: string): readonly string[] {
  const parts = splitModelId(name);
  if (parts && (catalog.models.has(name) || catalog.providers.has(parts.provider))) return [name];
  return catalog.idsByTail.get(name) ?? [];
}

/** Why a model of the chain cannot be asked, null when it can. Reasons are recorded with the call. */
export function reasonToSkip(catalog: Catalog, project: ProjectRouting, dialect: Dialect, id: string): string | null {
  const provider = splitModelId(id)?.provider;
  const spoken = provider === undefined ? undefined : catalog.providers.get(provider);
  if (provider === undefined || spoken === undefined) return 'unknown_provider';
  if (project.providers !== null && !project.providers.includes(provider)) return 'provider_not_in_project';
  if (spoken !== dialect) return 'other_dialect';
  return null;
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
