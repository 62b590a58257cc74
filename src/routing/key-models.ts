/**
 * Checks the models and tiers in a key's allow-list. Without this check, nobody would notice a misspelled name until
 * the key's calls fail with `no_route`.
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

/** Finding a similar name in a large catalog takes milliseconds, so limit how many we suggest. */
const maxSuggestions = 10;

/** These names always work, because catalog fill can find models for `auto` and its default tiers. */
const builtInNames = ['auto', 'standard', 'embed'] as const;

function listTiers({ catalog, project }: KeyModelsView): string[] {
  const overrides = [project, ...project.applications.values()].flatMap(
    ({ tiers, imageTiers, speechTiers, transcriptionTiers }: MediaTiers & Pick<ProjectRouting, 'tiers'>) =>
      [tiers, imageTiers, speechTiers, transcriptionTiers].flatMap((chains) => Object.keys(chains ?? {})),
  );
  const media = Object.values(catalog.media).flatMap(({ tiers }) => [...tiers.keys()]);
  return [...new Set([...builtInNames, ...catalog.tiers.keys(), ...media, ...overrides])];
}

/**
 * Returns one issue for each unknown name, except those in `accepted`. Known names are tiers, models in the catalog,
 * and all models of configured providers, because the catalog may be incomplete.
 */
export function findUnknownNames(view: KeyModelsView, names: readonly string[], accepted: readonly string[] = []): Issue[] {
  return findIssues(view, names, accepted, ['unknown']);
}

/**
 * Like `findUnknownNames`, but also returns an issue for each model that only exists at providers which the project may
 * not use.
 */
export function findUnusableNames(view: KeyModelsView, names: readonly string[], accepted: readonly string[] = []): Issue[] {
  return findIssues(view, names, accepted, ['unknown', 'not_allowed']);
}

function findIssues(
  view: KeyModelsView,
  names: readonly string[],
  accepted: readonly string[],
  reported: readonly KeyModelState[],
): Issue[] {
  const tiers = listTiers(view);
  const found = names
    .map((name, index) => ({ name, index, state: stateOf(view, tiers, name) }))
    .filter(({ name, index, state }) => reported.includes(state) && names.indexOf(name) === index && !accepted.includes(name));
  return found.map(({ name, index, state }, position) => ({
    path: `models.${index}`,
    message:
      state === 'not_allowed'
        ? describeForbidden(view, name)
        : describeUnknown(name, [...tiers, ...view.catalog.models.keys()], position < maxSuggestions),
  }));
}

function describeForbidden({ catalog, project: { providers } }: KeyModelsView, name: string): string {
  if (providers?.length === 0) return `no call can use ${quoteName(name)}, because the project may not use any provider`;
  const provider = splitModelId(name)?.provider;
  // A model name without its provider can contain a slash, too.
  const whose =
    provider === undefined || !catalog.served.has(provider)
      ? `any provider that serves ${quoteName(name)}`
      : `the provider ${quoteName(provider)}, which ${quoteName(name)} needs`;
  return `the project may not use ${whose}`;
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

/**
 * `uncatalogued` means that a configured provider may have the model, but the catalog doesn't list it, so its price is
 * unknown. `not_allowed` means that the project may not use any of the model's providers. A tier is only `not_allowed`
 * if the project may not use any provider at all.
 */
export type KeyModelState = 'known' | 'uncatalogued' | 'not_allowed' | 'unknown';

export function findModelStates(view: KeyModelsView, names: readonly string[]): ReadonlyMap<string, KeyModelState> {
  const tiers = listTiers(view);
  return new Map(names.map((name) => [name, stateOf(view, tiers, name)]));
}

function stateOf({ catalog, project: { providers } }: KeyModelsView, tiers: readonly string[], name: string): KeyModelState {
  if (tiers.includes(name)) return providers?.length === 0 ? 'not_allowed' : 'known';
  const ids = catalog.models.has(name) ? [name] : (catalog.idsByBareName.get(name) ?? []);
  const isAllowed = (id: string): boolean => providers === null || providers.includes(splitModelId(id)?.provider ?? '');
  if (ids.length > 0) return ids.some(isAllowed) ? 'known' : 'not_allowed';
  const provider = splitModelId(name)?.provider;
  if (provider === undefined || !catalog.served.has(provider)) return 'unknown';
  return isAllowed(name) ? 'uncatalogued' : 'not_allowed';
}
