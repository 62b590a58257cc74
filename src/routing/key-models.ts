/**
 * Checks the names in the list of models that a key may use. A name with a typo permits nothing, so the calls of the key
 * would fail much later, with `no_route`.
 */
import type { Issue } from '../core/error-messages.ts';
import { type Catalog, splitModelId } from './catalog.ts';
import { findNearestName } from './nearest-name.ts';
import { quoteName } from './no-route.ts';
import type { MediaTiers, ProjectRouting } from './rules.ts';

interface KeyModelsView {
  readonly catalog: Catalog;
  readonly project: ProjectRouting;
}

/** A search takes milliseconds in a large catalog, so we only suggest names for the first unknown ones. */
const maxSuggestions = 10;

/** `auto` and the tiers that `auto` falls back to, which may have models from catalog fill without being configured. */
const builtInNames = ['auto', 'standard', 'embed'] as const;

/** Lists the tiers of the deployment, of the project and of all its applications. */
function listTiers({ catalog, project }: KeyModelsView): string[] {
  const overrides = [project, ...project.applications.values()].flatMap(
    ({ tiers, imageTiers, speechTiers, transcriptionTiers }: MediaTiers & Pick<ProjectRouting, 'tiers'>) =>
      [tiers, imageTiers, speechTiers, transcriptionTiers].flatMap((chains) => Object.keys(chains ?? {})),
  );
  const media = Object.values(catalog.media).flatMap(({ tiers }) => [...tiers.keys()]);
  return [...new Set([...builtInNames, ...catalog.tiers.keys(), ...media, ...overrides])];
}

/**
 * Returns an issue for each name that is neither a tier, nor a model, nor a model of a configured provider. We can't
 * reject unknown models of a configured provider, because the catalog doesn't have to list every model.
 */
export function findUnknownNames(view: KeyModelsView, names: readonly string[]): Issue[] {
  const tiers = listTiers(view);
  return names
    .filter((name) => stateOf(view.catalog, tiers, name) === 'unknown')
    .map((name, index) => ({
      path: 'models',
      message: describeUnknown(name, [...tiers, ...view.catalog.models.keys()], index < maxSuggestions),
    }));
}

function describeUnknown(name: string, usable: Iterable<string>, mayCompare: boolean): string {
  const provider = splitModelId(name)?.provider;
  const problem =
    provider === undefined
      ? `${quoteName(name)} is neither a tier nor a model`
      : `no provider ${quoteName(provider)} is configured for ${quoteName(name)}`;
  const nearest = mayCompare ? findNearestName(name, usable, () => true) : null;
  if (nearest !== null) return `${problem} (did you mean ${quoteName(nearest)}?)`;
  return provider === undefined ? `${problem}; write models that the catalog does not list as provider/model` : problem;
}

/** `uncatalogued` models belong to a configured provider, but the catalog doesn't list them, so they have no price. */
export type KeyModelState = 'known' | 'uncatalogued' | 'unknown';

export function findModelStates(view: KeyModelsView, names: readonly string[]): ReadonlyMap<string, KeyModelState> {
  const tiers = listTiers(view);
  return new Map(names.map((name) => [name, stateOf(view.catalog, tiers, name)]));
}

function stateOf(catalog: Catalog, tiers: readonly string[], name: string): KeyModelState {
  if (tiers.includes(name) || catalog.models.has(name) || catalog.idsByBareName.has(name)) return 'known';
  const provider = splitModelId(name)?.provider;
  return provider !== undefined && catalog.served.has(provider) ? 'uncatalogued' : 'unknown';
}
