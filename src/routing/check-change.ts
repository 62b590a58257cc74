/**
 * Checks a change of routing settings before it is saved. Unknown providers are mistakes. Other findings are warnings,
 * because somebody may intend them. Only what the change adds or breaks is reported, so that people can still edit
 * settings that contain a provider which was removed from the configuration.
 */
import type { Issue } from '../core/error-messages.ts';
import type { ProjectSettings } from '../projects/project-settings.ts';
import { splitModelId } from './catalog.ts';
import {
  checkModel,
  configuredTiers,
  hasUnknownProvider,
  isUsableTier,
  type ModelScope,
  overrideTiers,
  type TierKind,
  type TierSets,
  tierKinds,
} from './check-models.ts';
import { findNearestName } from './nearest-name.ts';

/** The settings of a project or an application, together with what the project allows. */
interface RoutingState {
  readonly allowed: ModelScope['project'];
  readonly tiers: TierSets;
  /** Empty for an application. */
  readonly retired: readonly string[];
}

interface RoutingChangeRequest {
  readonly catalog: ModelScope['catalog'];
  /** The tiers that apply where the settings have no tier of the same name. */
  readonly inherited: TierSets;
  readonly before: RoutingState;
  readonly after: RoutingState;
  /** Whether calls to a tier without a usable model go to other models of the catalog. */
  readonly catalogFill: boolean;
}

export interface RoutingFindings {
  /** The paths are such as `tiers.standard.0`, `providers` or `retired`. */
  readonly mistakes: readonly Issue[];
  readonly warnings: readonly Issue[];
}

function checkRoutingChange(request: RoutingChangeRequest): RoutingFindings {
  const added = addedModels(request);
  return {
    mistakes: [...added.flatMap((model) => unknownProvider(request, model)), ...unknownNames(request)],
    warnings: [...added.flatMap((model) => unlistedModel(request, model)), ...tierKinds.flatMap((kind) => brokenTiers(request, kind))],
  };
}

/** Checks a change of a project's settings that was saved. `catalogFill` is for projects without a setting of their own. */
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

/** Like `checkProjectChange`, for an application of the project. */
export function checkApplicationChange(
  { catalog, catalogFill }: { readonly catalog: ModelScope['catalog']; readonly catalogFill: boolean },
  project: ProjectRoutingSettings,
  before: TieredSettings,
  after: TieredSettings,
): RoutingFindings {
  const stateOf = (settings: TieredSettings): RoutingState => ({ allowed: project, tiers: tierSetsOf(settings), retired: [] });
  return checkRoutingChange({
    catalog,
    inherited: overrideTiers(configuredTiers(catalog), tierSetsOf(project)),
    before: stateOf(before),
    after: stateOf(after),
    catalogFill: project.catalogFill ?? catalogFill,
  });
}

/** The tiers of a project or an application under the names that they have there. */
type TieredSettings = Pick<ProjectSettings, 'tiers' | 'imageTiers' | 'speechTiers' | 'transcriptionTiers'>;
type ProjectRoutingSettings = TieredSettings & Pick<ProjectSettings, 'providers' | 'requiredTags' | 'retired' | 'catalogFill'>;

function stateOfProject(settings: ProjectRoutingSettings): RoutingState {
  return { allowed: settings, tiers: tierSetsOf(settings), retired: settings.retired };
}

function tierSetsOf({ tiers, imageTiers, speechTiers, transcriptionTiers }: TieredSettings): TierSets {
  return { tiers, image_tiers: imageTiers, speech_tiers: speechTiers, transcription_tiers: transcriptionTiers };
}

interface AddedModel {
  readonly kind: TierKind;
  readonly path: string;
  readonly name: string;
}

/** Returns the models that were not in any tier of the same kind before. */
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
  // The schema rejects names without a provider.
  if (provider === undefined || !hasUnknownProvider(catalog, kind, name)) return [];
  return [{ path, message: noSuchProvider(catalog, provider) }];
}

/** Checks the lists that contain names of providers. */
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

/** Finds the tiers that calls could use before the change and can't use afterwards, and new tiers without a usable model. */
function brokenTiers({ catalog, inherited, before, after, catalogFill }: RoutingChangeRequest, kind: TierKind): Issue[] {
  const tiersOf = ({ tiers }: RoutingState) => new Map(Object.entries(overrideTiers(inherited, tiers)[kind]));
  const [earlier, later] = [tiersOf(before), tiersOf(after)];
  const isUsable = ({ allowed }: RoutingState, models: readonly string[]): boolean =>
    isUsableTier({ catalog, project: allowed }, kind, models);
  const consequence = catalogFill ? 'calls to it would go to other models of the catalog' : 'calls to it would be refused';
  const unusable = [...later].flatMap(([tier, models]): Issue[] => {
    const old = earlier.get(tier);
    if (isUsable(after, models) || (old !== undefined && !isUsable(before, old))) return [];
    return [{ path: `${kind}.${tier}`, message: `the project could use no model of the tier ${tier}, so ${consequence}` }];
  });
  const removed = [...earlier.keys()].flatMap((tier): Issue[] =>
    later.has(tier)
      ? []
      : [{ path: `${kind}.${tier}`, message: `the tier ${tier} would no longer exist, so calls that name it would be refused` }],
  );
  return [...unusable, ...removed];
}
