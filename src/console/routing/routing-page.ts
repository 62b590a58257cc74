/**
 * Shows how we route the project's calls, i.e. its current tiers, its providers with their breakers, retired models,
 * and the catalog fill.
 */

import type { Tiers } from '../../core/call.ts';
import type { Breakers } from '../../failover/breaker.ts';
import type { Canary, Catalog } from '../../routing/catalog.ts';
import { breakerKeys } from '../../routing/pools.ts';
import type { ReadBreakers } from '../../routing/shared-breakers.ts';
import { badge, csvLink, emptyState, formatPercent, notice, section, table } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, CsvValue, PageContent, PageResult } from '../frame/route.ts';

/** A configured provider. This never includes its key. */
export interface ProviderSummary {
  readonly name: string;
  readonly host: string;
  readonly dialect: string;
  readonly serves: readonly string[];
  /** Null for the local embedder, which meets every requirement. */
  readonly tags: readonly string[] | null;
}

export interface RoutingPageDeps {
  readonly catalog: () => Catalog;
  readonly listProviders: () => readonly ProviderSummary[];
  readonly breakers: Pick<Breakers, 'isHealthy'>;
  readonly readBreakers: ReadBreakers;
  /** Returns the default for projects that don't have their own setting. */
  readonly catalogFill: () => boolean;
}

interface TierRow {
  readonly kind: string;
  readonly name: string;
  readonly models: readonly string[];
  readonly origin: 'project' | 'configuration';
  /** True if the project replaces a tier of the configuration. */
  readonly isOverride: boolean;
  readonly canary: Canary | null;
}

export async function showRouting(deps: RoutingPageDeps, context: ConsoleContext): Promise<PageContent> {
  const { project, role } = context;
  const { settings } = project;
  const edit = role === 'owner' ? html`<a class="button primary" href="${projectPath(context, '/routing/edit')}">Edit</a>` : '';
  const fill = settings.catalogFill ?? deps.catalogFill();
  return {
    kind: 'page',
    title: 'Routing',
    actions: html`${csvLink(context)}<a class="button" href="${projectPath(context, '/routing/dry-run')}">What would happen to a call</a>${edit}`,
    content: html`${settings.mayCall ? '' : notice('Every call of this project is refused with 402: may_call is off.', 'bad')}
${section('Tiers', tierTable(tierRows(deps.catalog(), settings)), { hint: 'Models are tried in this order. A call names a tier as its model; auto lets the gateway choose one.' })}
${section('Providers', html`${requiredTagsLine(settings.requiredTags)}${await providerTable(deps, context)}`, { hint: 'Each breaker is in the worst state that a process has seen. An open breaker moves models to the end of a plan; it removes none.' })}
${section('Retired', retiredList(settings.retired), { hint: 'Retired models and providers are called only after all others.' })}
${section('Catalog fill', html`<p>${badge(fill ? 'on' : 'off', fill ? 'good' : 'neutral')} ${settings.catalogFill === null ? 'as in the configuration' : 'set for this project'}</p>`, { hint: 'When on, models of the same kind replace a tier none of whose models a provider of the project serves.' })}`,
  };
}

/** Returns the project's current tiers. */
function tierRows(catalog: Catalog, settings: ConsoleContext['project']['settings']): TierRow[] {
  const rowsOf = (kind: string, own: Tiers, configured: ReadonlyMap<string, readonly string[]>): TierRow[] => {
    const names = [...new Set([...configured.keys(), ...Object.keys(own)])];
    return names.map((name) => {
      const isOwn = Object.hasOwn(own, name);
      const models = (isOwn ? own[name] : configured.get(name)) ?? [];
      const canary = (kind === 'text' && !isOwn && catalog.canaries.get(name)) || null;
      return { kind, name, models, origin: isOwn ? 'project' : 'configuration', isOverride: isOwn && configured.has(name), canary };
    });
  };
  return [
    ...rowsOf('text', settings.tiers, catalog.tiers),
    ...rowsOf('images', settings.imageTiers, catalog.media.images.tiers),
    ...rowsOf('speech', settings.speechTiers, catalog.media.speech.tiers),
    ...rowsOf('transcription', settings.transcriptionTiers, catalog.media.transcriptions.tiers),
  ];
}

function tierTable(rows: readonly TierRow[]): Html {
  return table<TierRow>({
    caption: 'Tiers in force',
    hideCaption: true,
    rows,
    empty: 'Neither the configuration nor the project defines a tier.',
    columns: [
      { label: 'Tier', value: ({ name }) => html`<code>${name}</code>` },
      { label: 'Kind', value: ({ kind }) => kind },
      { label: 'Models', value: ({ models, canary }) => html`${modelChain(models)}${canary && canaryLine(canary)}`, grow: true },
      { label: 'Defined by', value: ({ origin, isOverride }) => (isOverride ? 'project, instead of configuration' : origin) },
    ],
  });
}

function canaryLine({ model, share }: Canary): Html {
  return html`<p class="hint">In ${formatPercent(share)} of the conversations, the canary <code>${model}</code> is tried first.</p>`;
}

function modelChain(models: readonly string[]): Html {
  if (models.length === 0) return html`<span class="muted">None</span>`;
  return html`<ol class="chain">${models.map((model) => html`<li><code>${model}</code></li>`)}</ol>`;
}

async function providerTable(deps: RoutingPageDeps, { project }: ConsoleContext): Promise<Html> {
  const { providers, retired, requiredTags } = project.settings;
  const rows = deps.listProviders();
  const catalog = deps.catalog();
  const reports = await deps.readBreakers(
    project.id,
    rows.flatMap(({ name }) => breakerKeys(catalog, name)),
  );
  const breakers = new Map(reports.map((report) => [report.provider, report]));
  const health = (key: string): Html => {
    const { state = 'closed', failures = 0 } = breakers.get(key) ?? {};
    if (state !== 'closed')
      return html`${badge(state === 'open' ? 'open' : 'probing', state === 'open' ? 'bad' : 'warning')} ${failures} failures in a row`;
    return deps.breakers.isHealthy(project.id, key) ? badge('healthy', 'good') : badge('cooldown', 'warning');
  };
  return table<ProviderSummary>({
    caption: 'Providers',
    hideCaption: true,
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
      {
        label: 'Breaker',
        value: ({ name }) => {
          const members = catalog.pools.get(name)?.members;
          if (!members) return health(name);
          return html`${members.map((member) => html`<div>${member.name} ${health(member.key)}</div>`)}`;
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
  const rows = tierRows(deps.catalog(), project.settings).flatMap(({ kind, name, models, origin }) =>
    models.map((model, index): CsvValue[] => [kind, name, index + 1, model, origin]),
  );
  return { kind: 'csv', fileName: `tiers-${project.slug}.csv`, header: ['kind', 'tier', 'position', 'model', 'defined_by'], rows };
}
