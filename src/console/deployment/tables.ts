import type { OpenBreaker } from '../../routing/open-breakers.ts';
import type { DeploymentFigures } from '../../usage/analytics/deployment-figures.ts';
import { share } from '../../usage/analytics/metrics.ts';
import { ceilingMeters } from '../frame/ceilings.ts';
import { formatCount, formatPercent, meter, table, time, total, totalUsd } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { breakerBadge, healthBadge } from '../frame/provider-health.ts';
import type { ConsoleContext } from '../frame/route.ts';
import type { Column } from '../frame/table.ts';
import { rangeQuery } from '../frame/time-range.ts';
import type { Compared, KeyFigures, NamedComparison, ProjectFigures, ProviderFigures } from './read-deployment.ts';

const missing = html`<span class="muted">–</span>`;

function figureColumns<Row>(figuresOf: (row: Row) => Compared | null, calls = 'Calls'): readonly Column<Row>[] {
  return [
    { label: calls, align: 'end', value: (row) => formatCount(figuresOf(row)?.current.calls ?? null) },
    { label: 'Errors', align: 'end', value: (row) => errorsOf(figuresOf(row)?.current) },
    { label: 'Spend', align: 'end', value: (row) => costOf(figuresOf(row)?.current) },
    { label: 'Before', align: 'end', value: (row) => totalOf(figuresOf(row)?.previous) },
    { label: 'Change', align: 'end', wideOnly: true, value: (row) => changeOf(figuresOf(row)) ?? missing },
  ];
}

function errorsOf(figures: DeploymentFigures | undefined): Html | string {
  if (figures === undefined) return '–';
  if (figures.errors === 0) return '0';
  return html`${formatCount(figures.errors)} <span class="muted">${formatPercent(share(figures.errors, figures.calls))}</span>`;
}

function totalOf(figures: DeploymentFigures | undefined): Html {
  return figures === undefined ? missing : total(figures.costNanos);
}

function costOf(figures: DeploymentFigures | undefined): Html {
  if (figures === undefined) return missing;
  return figures.unpriced === 0
    ? total(figures.costNanos)
    : html`${total(figures.costNanos)} <span class="muted" title="${formatCount(figures.unpriced)} calls with unknown cost">+ ?</span>`;
}

function changeOf(figures: Compared | null): Html | null {
  if (figures === null || figures.previous.costNanos === 0n) return null;
  const before = Number(figures.previous.costNanos);
  const percent = Math.round(((Number(figures.current.costNanos) - before) / before) * 100);
  return html`${percent > 0 ? '+' : ''}${formatCount(percent)}%`;
}

export function projectHref(context: ConsoleContext, slug: string): string {
  const query = new URLSearchParams(rangeQuery(context)).toString();
  return `/console/p/${slug}/overview${query === '' ? '' : `?${query}`}`;
}

export function projectTable(context: ConsoleContext, rows: readonly ProjectFigures[], all: Compared): Html {
  return table<ProjectFigures>({
    caption: 'Projects by spend',
    rows,
    empty: 'No project made a call in this period or in the one before.',
    rowHref: ({ project }) => projectHref(context, project.slug),
    columns: [
      { label: 'Project', value: ({ project }) => project.name, grow: true },
      { label: 'Monthly cap', value: capMeter },
      ...figureColumns<ProjectFigures>((row) => row),
    ],
    footer: [
      ...['All projects', '', formatCount(all.current.calls), errorsOf(all.current), costOf(all.current)],
      ...[total(all.previous.costNanos), changeOf(all) ?? ''],
    ],
  });
}

export function capMeter({ project, monthNanos }: ProjectFigures): Html {
  const cap = project.settings.monthlyCapNanos;
  if (cap === null || monthNanos === null) return html`<span class="muted">None</span>`;
  const text = `${totalUsd(monthNanos)} of ${totalUsd(cap)} this month`;
  return meter({ label: `Monthly cap of ${project.name}`, value: Number(monthNanos), max: cap, text });
}

export function keyTable(rows: readonly KeyFigures[]): Html {
  return table<KeyFigures>({
    caption: 'Keys by spend',
    rows,
    empty: 'No key made a call in this period.',
    rowHref: ({ key, project }) => `/console/p/${project.slug}/keys/${key.prefix}`,
    columns: [
      { label: 'Key', value: ({ key }) => key.name, grow: true },
      { label: 'Project', value: ({ project }) => project.name },
      { label: 'Ceilings (UTC)', value: ({ uses }) => ceilingMeters(uses) },
      ...figureColumns<KeyFigures>((row) => row),
    ],
  });
}

export function modelTable(rows: readonly NamedComparison[]): Html {
  return table<NamedComparison>({
    caption: 'Models by spend',
    rows,
    empty: 'No model was called in this period.',
    columns: [
      {
        label: 'Model',
        grow: true,
        value: ({ name }) =>
          name === null
            ? html`<span class="muted">No model answered</span>`
            : html`<a href="/console/admin/prices/model?${new URLSearchParams({ id: name })}">${name}</a>`,
      },
      ...figureColumns<NamedComparison>((row) => row),
    ],
  });
}

export function personTable(rows: readonly NamedComparison[]): Html {
  return table<NamedComparison>({
    caption: 'People by spend in the playground',
    rows,
    empty: 'Nobody used the playground in this period.',
    columns: [
      { label: 'Person', grow: true, value: ({ name }) => name ?? html`<span class="muted">Deleted account</span>` },
      ...figureColumns<NamedComparison>((row) => row),
    ],
  });
}

export function providerTable(context: ConsoleContext, rows: readonly ProviderFigures[]): Html {
  return table<ProviderFigures>({
    caption: 'Providers',
    rows,
    empty: 'No provider is configured.',
    columns: [
      { label: 'Provider', value: ({ name }) => name, grow: true },
      { label: 'Health', value: (row) => healthOf(context, row) },
      {
        label: 'Failed, last 15 min',
        align: 'end',
        value: ({ health: { recent } }) =>
          recent === null
            ? html`<span class="muted">No attempts</span>`
            : html`${formatCount(recent.failed)} of ${formatCount(recent.attempts)}`,
      },
      ...figureColumns<ProviderFigures>(({ attempts }) => attempts, 'Attempts'),
    ],
  });
}

function healthOf({ zone }: ConsoleContext, { health }: ProviderFigures): Html {
  const { breakers } = health;
  if (breakers.length === 0) return healthBadge(health);
  return html`${breakers.map((breaker) => html`<div>${breakerBadge(breaker)} ${describeBreaker(breaker, zone)}</div>`)}`;
}

function describeBreaker({ provider, projects, openedAt }: OpenBreaker, zone: string): Html {
  const member = provider.includes('/') ? `${provider.slice(provider.indexOf('/') + 1)}, ` : '';
  return html`<span class="muted">${member}in ${formatCount(projects)} ${projects === 1 ? 'project' : 'projects'} since ${time(openedAt, zone, 'minute')}</span>`;
}
