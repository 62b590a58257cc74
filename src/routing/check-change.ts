/**
 * Checks changes to routing settings before they're saved. A provider that doesn't exist is an error. Anything else
 * only causes a warning, because it may be intentional. We only report problems that the change causes. Otherwise
 * nobody could edit settings that still contain a provider which has been removed from the configuration.
 */
import type { Issue } from '../core/error-messages.ts';
import type { ProjectSettings } from '../projects/project-settings.ts';
import { type TierKind, type TierSets, type TierSettings, tierKinds, toTierSets } from '../projects/tiers.ts';
import { splitModelId } from './catalog.ts';
import { checkModel, configuredTiers, hasUnknownProvider, isUsableTier, type ModelScope, overrideTiers } from './check-models.ts';
import { findNearestName } from './nearest-name.ts';

interface RoutingState {
  readonly allowed: ModelScope['project'];
  readonly tiers: TierSets;
  /** Models and providers to use only as a last resort. Empty for applications, because only projects can set it. */
  readonly retired: readonly string[];
}

interface RoutingChangeRequest {
  readonly catalog: ModelScope['catalog'];
  readonly inherited: TierSets;
  readonly before: RoutingState;
  readonly after: RoutingState;
  readonly catalogFill: boolean;
}

export interface RoutingFindings {
  /**
   * Errors that make us reject the change. The path of an issue names a setting, e.g. `tiers.standard.0`, `providers`
   * or `retired`.
   */
  readonly mistakes: readonly Issue[];
  readonly warnings: readonly Issue[];
}

function checkRoutingChange(request: RoutingChangeRequest): RoutingFindings {
  const added = addedModels(request);
  return {
    mistakes: [...added.flatMap((model) => unknownProvider(request, model)), ...unknownNames(request)],
    warnings: [
      ...added.flatMap((model) => unlistedModel(request, model)),
      ...unknownTags(request),
      ...tierKinds.flatMap((kind) => brokenTiers(request, kind)),
    ],
  };
}

/** `catalogFill` is the default for projects that don't set it. */
export function checkProjectChange(
  { catalog, catalogFill }: { readonly catalog: ModelScope['catalog']; readonly catalogFill: boolean },
  before: ProjectRoutingSettings,
  after: ProjectRoutingSettings,
): RoutingFindings {
  return checkRoutingChange({
    catalog,
    inherited: configuredTiers(catalog),
    before: stateOfProject(before),
    after: stateOfProject(after),
    catalogFill: after.catalogFill ?? catalogFill,
  });
}

export function checkApplicationChange(
  { catalog, catalogFill }: { readonly catalog: ModelScope['catalog']; readonly catalogFill: boolean },
  project: ProjectRoutingSettings,
  before: TierSettings,
  after: TierSettings,
): RoutingFindings {
  const stateOf = (settings: TierSettings): RoutingState => ({ allowed: project, tiers: toTierSets(settings), retired: [] });
  return checkRoutingChange({
    catalog,
    inherited: overrideTiers(configuredTiers(catalog), toTierSets(project)),
    before: stateOf(before),
    after: stateOf(after),
    catalogFill: project.catalogFill ?? catalogFill,
  });
}

type ProjectRoutingSettings = TierSettings & Pick<ProjectSettings, 'providers' | 'requiredTags' | 'retired' | 'catalogFill'>;

function stateOfProject(settings: ProjectRoutingSettings): RoutingState {
  return { allowed: settings, tiers: toTierSets(settings), retired: settings.retired };
}

interface AddedModel {
  readonly kind: TierKind;
  readonly path: string;
  readonly name: string;
}

/** Returns the models that the change adds to tiers, except those that were already in a tier of the same kind. */
function addedModels({ before, after }: RoutingChangeRequest): AddedModel[] {
  return tierKinds.flatMap((kind) => {
    const known = new Set(Object.values(before.tiers[kind]).flat());
    return Object.entries(after.tiers[kind]).flatMap(([tier, models]) =>
      models.flatMap((name, index) => (known.has(name) ? [] : [{ kind, path: `${kind}.${tier}.${index}`, name }])),
    );
  });
}

function unknownProvider({ catalog }: RoutingChangeRequest, { kind, path, name }: AddedModel): Issue[] {
  const provider = splitModelId(name)?.provider;
  // Skip names without a provider, because the schema has already rejected them.
  if (provider === undefined || !hasUnknownProvider(catalog, kind, name)) return [];
  return [{ path, message: noSuchProvider(catalog, provider) }];
}

function unknownNames({ catalog, before, after }: RoutingChangeRequest): Issue[] {
  const issues = (path: string, names: readonly string[], known: readonly string[], prefix: (name: string) => string): Issue[] =>
    names.flatMap((name) => {
      const provider = splitModelId(name)?.provider ?? name;
      if (known.includes(name) || catalog.served.has(provider) || !hasUnknownProvider(catalog, 'tiers', name)) return [];
      return [{ path, message: `${prefix(name)}${noSuchProvider(catalog, provider)}` }];
    });
  return [
    ...issues('providers', after.allowed.providers ?? [], before.allowed.providers ?? [], () => ''),
    ...issues('retired', after.retired, before.retired, (name) => (splitModelId(name) ? `${name}: ` : '')),
  ];
}

function unknownTags({ catalog, before, after }: RoutingChangeRequest): Issue[] {
  const known = [...catalog.tags.values()].flatMap((tags) => tags ?? []);
  return after.allowed.requiredTags.flatMap((tag) =>
    before.allowed.requiredTags.includes(tag) || known.includes(tag) ? [] : [{ path: 'required_tags', message: noSuchTag(tag, known) }],
  );
}

function noSuchTag(tag: string, known: readonly string[]): string {
  const nearest = findNearestName(tag, known, () => true);
  return `no provider has the tag ${tag}${nearest === null ? '' : `; did you mean ${nearest}?`}`;
}

function noSuchProvider(catalog: ModelScope['catalog'], provider: string): string {
  const nearest = findNearestName(provider, catalog.served.keys(), () => true);
  return `no provider named ${provider} is configured${nearest === null ? '' : `; did you mean ${nearest}?`}`;
}

function unlistedModel({ catalog, after }: RoutingChangeRequest, { kind, path, name }: AddedModel): Issue[] {
  if (hasUnknownProvider(catalog, kind, name) || checkModel({ catalog, project: after.allowed }, kind, name).isListed) return [];
  const provider = splitModelId(name)?.provider ?? '';
  const nearest = findNearestName(name, catalog.models.keys(), (id) => id !== name && id.startsWith(`${provider}/`));
  return [
    {
      path,
      message: `the catalog has no model ${name}, so its price and its limits are unknown${nearest === null ? '' : `; did you mean ${nearest}?`}`,
    },
  ];
}

/** Finds tiers that calls could use before the change but not after it, and new tiers without a usable model. */
function brokenTiers({ catalog, inherited, before, after, catalogFill }: RoutingChangeRequest, kind: TierKind): Issue[] {
  const tiersOf = ({ tiers }: RoutingState) => new Map(Object.entries(overrideTiers(inherited, tiers)[kind]));
  const [earlier, later] = [tiersOf(before), tiersOf(after)];
  const isUsable = ({ allowed }: RoutingState, models: readonly string[]): boolean =>
    isUsableTier({ catalog, project: allowed }, kind, models);
  const consequence = catalogFill ? 'calls to it would go to other models in the catalog' : 'calls to it would be refused';
  const unusable = [...later].flatMap(([tier, models]): Issue[] => {
    const old = earlier.get(tier);
    if (isUsable(after, models) || (old !== undefined && !isUsable(before, old))) return [];
    return [{ path: `${kind}.${tier}`, message: `the project could not use any model in the tier ${tier}, so ${consequence}` }];
  });
  const removed = [...earlier.keys()].flatMap((tier): Issue[] =>
    later.has(tier)
      ? []
      : [{ path: `${kind}.${tier}`, message: `the tier ${tier} would no longer exist, so calls that name it would be refused` }],
  );
  return [...unusable, ...removed];
}
