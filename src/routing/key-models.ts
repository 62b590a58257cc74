/**
 * Checks the models and tiers that a key may use. If a name is misspelled it doesn't permit anything, and without this
 * check we'd only find out much later, when the key's calls fail with `no_route`.
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

/** It takes milliseconds to find a similar name in a large catalog, so we only do it for the first unknown names. */
const maxSuggestions = 10;

/** These names always work, because catalog fill can find models for `auto` and for the tiers that it stands for. */
const builtInNames = ['auto', 'standard', 'embed'] as const;

/** Lists all tiers: those of the deployment, of the project and of its applications. */
function listTiers({ catalog, project }: KeyModelsView): string[] {
  const overrides = [project, ...project.applications.values()].flatMap(
    ({ tiers, imageTiers, speechTiers, transcriptionTiers }: MediaTiers & Pick<ProjectRouting, 'tiers'>) =>
      [tiers, imageTiers, speechTiers, transcriptionTiers].flatMap((chains) => Object.keys(chains ?? {})),
  );
  const media = Object.values(catalog.media).flatMap(({ tiers }) => [...tiers.keys()]);
  return [...new Set([...builtInNames, ...catalog.tiers.keys(), ...media, ...overrides])];
}

/**
 * Returns an issue for each unknown name. A name is known if it's a tier or a model in the catalog. We also accept any
 * model of a configured provider, because the catalog doesn't have to list all of them. Names in `accepted` are
 * skipped, and a name that occurs several times only gets one issue.
 */
export function findUnknownNames(view: KeyModelsView, names: readonly string[], accepted: readonly string[] = []): Issue[] {
  return findIssues(view, names, accepted, ['unknown']);
}

/**
 * Like `findUnknownNames`, but also returns an issue for each model whose providers are all off limits to the project.
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
  // The name of a model can contain a slash even without its provider.
  const whose =
    provider === undefined || !catalog.served.has(provider)
      ? `a provider of ${quoteName(name)}`
      : `the provider ${quoteName(provider)} of ${quoteName(name)}`;
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
 * `uncatalogued` means that the model belongs to a configured provider but isn't in the catalog, so we don't know its
 * price.
 *
 * `not_allowed` means that the model exists, but the project isn't allowed to use any of its providers. If the project
 * isn't allowed to use any provider at all, its tiers have this state, too.
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
