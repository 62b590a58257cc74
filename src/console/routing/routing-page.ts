/**
 * Shows how the project's calls are routed: its tiers, providers with their circuit breakers, retired models, and
 * whether catalog fill is on.
 */

import type { Breakers } from '../../failover/breaker.ts';
import { type TierKind, tierKinds, toTierSets } from '../../projects/tiers.ts';
import type { Canary, Catalog } from '../../routing/catalog.ts';
import { isUsableTier, type ModelScope } from '../../routing/check-models.ts';
import { breakerKeys } from '../../routing/pools.ts';
import type { ReadBreakers } from '../../routing/shared-breakers.ts';
import { badge, csvLink, emptyState, formatPercent, notice, section, table } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { healthBadge, healthRule, type ReadHealth } from '../frame/provider-health.ts';
import type { ConsoleContext, CsvValue, PageContent, PageResult } from '../frame/route.ts';
import { markModel } from '../frame/tier-checks.ts';

/** A configured provider. Never includes its API key. */
export interface ProviderSummary {
  readonly name: string;
  readonly host: string;
  readonly dialect: string;
  readonly serves: readonly string[];
  /** Null for the local embedder, because projects may use it regardless of the tags that they require. */
  readonly tags: readonly string[] | null;
}

export interface RoutingPageDeps {
  readonly catalog: () => Catalog;
  readonly listProviders: () => readonly ProviderSummary[];
  readonly breakers: Pick<Breakers, 'isHealthy'>;
  readonly readBreakers: ReadBreakers;
  readonly readHealth: ReadHealth;
  /** Says whether catalog fill is on for projects that don't have a setting of their own. */
  readonly catalogFill: () => boolean;
}

interface TierRow {
  readonly member: TierKind;
  readonly name: string;
  readonly models: readonly string[];
  readonly origin: 'project' | 'configuration';
  /**
   * The models of the tier in the configuration file that the project's tier overrides. Null if it doesn't override
   * one.
   */
  readonly replaced: readonly string[] | null;
  readonly canary: Canary | null;
}

const kinds: Readonly<Record<TierKind, string>> = {
  tiers: 'text',
  image_tiers: 'images',
  speech_tiers: 'speech',
  transcription_tiers: 'transcription',
};

export async function showRouting(deps: RoutingPageDeps, context: ConsoleContext): Promise<PageContent> {
  const { project, role } = context;
  const { settings } = project;
  const edit = role === 'owner' ? html`<a class="button primary" href="${projectPath(context, '/routing/edit')}">Edit</a>` : '';
  const fill = settings.catalogFill ?? deps.catalogFill();
  const scope = { catalog: deps.catalog(), project: settings };
  const tiers = tierRows(deps.catalog(), settings);
  const unusable = tiers.filter(({ member, models }) => !isUsableTier(scope, member, models));
  return {
    kind: 'page',
    title: 'Routing',
    actions: html`${csvLink(context)}<a class="button" href="${projectPath(context, '/routing/dry-run')}">What would happen to a call</a>${edit}`,
    content: html`${settings.mayCall ? '' : notice('Every call of this project is refused with 402: may_call is off.', 'bad')}
${unusableNotice(unusable, fill)}
${section('Tiers', tierTable(scope, tiers), { hint: 'Models are tried in this order. A call names a tier as its model; auto lets the gateway choose one.' })}
${section('Providers', html`${requiredTagsLine(settings.requiredTags)}${await providerTable(deps, context)}`, { hint: `${healthRule} Breakers are those of the project, each in the worst state in any process. An open breaker moves models to the end of the plan but doesn’t remove them.` })}
${section('Retired', retiredList(settings.retired), { hint: 'Retired models and providers are only called after all others have failed.' })}
${section('Catalog fill', html`<p>${badge(fill ? 'on' : 'off', fill ? 'good' : 'neutral')} ${settings.catalogFill === null ? 'as in the configuration' : 'set for this project'}</p>`, { hint: 'If this is on, a tier without a usable model gets other models of the same kind.' })}`,
  };
}

function tierRows(catalog: Catalog, settings: ConsoleContext['project']['settings']): TierRow[] {
  const allOwn = toTierSets(settings);
  const allConfigured: Readonly<Record<TierKind, Catalog['tiers']>> = {
    tiers: catalog.tiers,
    image_tiers: catalog.media.images.tiers,
    speech_tiers: catalog.media.speech.tiers,
    transcription_tiers: catalog.media.transcriptions.tiers,
  };
  return tierKinds.flatMap((member) => {
    const [own, configured] = [allOwn[member], allConfigured[member]];
    return [...new Set([...configured.keys(), ...Object.keys(own)])].map((name): TierRow => {
      const isOwn = Object.hasOwn(own, name);
      const models = (isOwn ? own[name] : configured.get(name)) ?? [];
      const canary = (member === 'tiers' && !isOwn && catalog.canaries.get(name)) || null;
      const replaced = (isOwn && configured.get(name)) || null;
      return { member, name, models, origin: isOwn ? 'project' : 'configuration', replaced, canary };
    });
  });
}

/** Warns about tiers that calls can't use, because all of their models are missing or forbidden. */
function unusableNotice(tiers: readonly TierRow[], fill: boolean): Html | '' {
  if (tiers.length === 0) return '';
  const names = tiers.map(({ name }, index) => html`${index === 0 ? '' : ', '}<code>${name}</code>`);
  const consequence = fill ? 'Calls to them go to other models, because the catalog fill is on.' : 'Calls to them are refused.';
  return notice(
    html`${names}: the project can use none of their models. ${consequence}`,
    fill ? 'warning' : 'bad',
    tiers.length === 1 ? 'A tier has no usable model' : `${tiers.length} tiers have no usable model`,
  );
}

function tierTable(scope: ModelScope, rows: readonly TierRow[]): Html {
  return table<TierRow>({
    caption: 'Tiers in force',
    rows,
    empty: 'Neither the configuration nor the project defines a tier.',
    columns: [
      { label: 'Tier', value: ({ name }) => html`<code>${name}</code>` },
      { label: 'Kind', value: ({ member }) => kinds[member] },
      {
        label: 'Models',
        value: ({ models, canary, member }) =>
          html`${modelChain(models, (model) => markModel(scope, member, model))}${canary && canaryLine(canary)}`,
        grow: true,
      },
      {
        label: 'Defined by',
        value: ({ origin, replaced }) =>
          origin === 'project'
            ? html`Project${replaced && html`<p class="hint">instead of the configuration file:</p>${modelChain(replaced)}`}`
            : 'Configuration file',
      },
    ],
  });
}

function canaryLine({ model, share }: Canary): Html {
  return html`<p class="hint">In ${formatPercent(share)} of the conversations, the canary <code>${model}</code> is tried first.</p>`;
}

function modelChain(models: readonly string[], mark: (model: string) => Html | '' = () => ''): Html {
  if (models.length === 0) return html`<span class="muted">None</span>`;
  return html`<ol class="chain">${models.map((model) => html`<li><code>${model}</code> ${mark(model)}</li>`)}</ol>`;
}

async function providerTable(deps: RoutingPageDeps, { project, now }: ConsoleContext): Promise<Html> {
  const { providers, retired, requiredTags } = project.settings;
  const rows = deps.listProviders();
  const catalog = deps.catalog();
  const keys = rows.flatMap(({ name }) => breakerKeys(catalog, name));
  const [reports, healthOf] = await Promise.all([deps.readBreakers(project.id, keys), deps.readHealth(now)]);
  const breakers = new Map(reports.map((report) => [report.provider, report]));
  const breakerOf = (key: string): Html => {
    const { state = 'closed', failures = 0 } = breakers.get(key) ?? {};
    if (state !== 'closed')
      return html`${badge(state === 'open' ? 'open' : 'probing', state === 'open' ? 'bad' : 'warning')} ${failures} failures in a row`;
    return deps.breakers.isHealthy(project.id, key) ? badge('closed') : badge('cooldown', 'warning');
  };
  return table<ProviderSummary>({
    caption: 'Providers',
    rows,
    empty: 'No provider is configured.',
    columns: [
      { label: 'Provider', value: ({ name }) => html`<strong>${name}</strong>` },
      { label: 'Host', value: ({ host }) => host, wideOnly: true },
      { label: 'Dialect', value: ({ dialect }) => dialect },
      { label: 'Serves', value: ({ serves }) => serves.join(', '), grow: true, wideOnly: true },
      {
        label: 'Tags',
        value: ({ tags }) => tags?.join(', ') ?? html`<span class="muted">any: runs on this machine</span>`,
        wideOnly: true,
      },
      {
        label: 'Project',
        value: ({ name, tags }) => {
          if (providers !== null && !providers.includes(name)) return badge('not allowed');
          const lacks = tags === null ? [] : requiredTags.filter((tag) => !tags.includes(tag));
          if (lacks.length > 0) return badge(`lacks ${lacks.join(', ')}`);
          return retired.includes(name) ? badge('retired', 'warning') : badge('allowed', 'good');
        },
      },
      { label: 'Health', value: ({ name }) => healthBadge(healthOf(name)) },
      {
        label: 'Breaker of the project',
        value: ({ name }) => {
          const members = catalog.pools.get(name)?.members;
          if (!members) return breakerOf(name);
          return html`${members.map((member) => html`<div>${member.name} ${breakerOf(member.key)}</div>`)}`;
        },
      },
    ],
  });
}

function requiredTagsLine(tags: readonly string[]): Html | '' {
  return tags.length === 0
    ? ''
    : html`<p>Required tags: ${tags.map((tag, index) => html`${index === 0 ? '' : ', '}<code>${tag}</code>`)}</p>`;
}

function retiredList(retired: readonly string[]): Html {
  if (retired.length === 0) return emptyState('Nothing is retired', 'Owners retire a model or a provider before it is removed.');
  return html`<ul class="bare">${retired.map((name) => html`<li><code>${name}</code></li>`)}</ul>`;
}

export async function exportTiers(deps: RoutingPageDeps, { project }: ConsoleContext): Promise<PageResult> {
  const rows = tierRows(deps.catalog(), project.settings).flatMap(({ member, name, models, origin }) =>
    models.map((model, index): CsvValue[] => [kinds[member], name, index + 1, model, origin]),
  );
  return { kind: 'csv', fileName: `tiers-${project.slug}.csv`, header: ['kind', 'tier', 'position', 'model', 'defined_by'], rows };
}
