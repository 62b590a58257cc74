/** Lists the applications that have settings of their own or have made calls recently. */
import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import type { ApplicationSettings } from '../../projects/application-settings.ts';
import type { Applications } from '../../projects/applications.ts';
import { toTierSets } from '../../projects/tiers.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { parseRange } from '../../usage/analytics/range.ts';
import { type CeilingUse, ceilingMeters, countersOf, describeCeiling, toUses } from '../frame/ceilings.ts';
import {
  csvLink,
  cutPage,
  emptyState,
  exactUsd,
  filterForm,
  formatCount,
  pageParameter,
  pager,
  table,
  textField,
  total,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, CsvValue, PageResult } from '../frame/route.ts';

export interface ApplicationListDeps {
  readonly applications: Pick<Applications, 'list'>;
  readonly readCounters: ReadCounters;
  readonly analytics: Pick<Analytics, 'figures'>;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

interface ApplicationRow {
  readonly source: string;
  /** Null if the application has no settings of its own. */
  readonly settings: ApplicationSettings | null;
  readonly calls: number;
  readonly costNanos: bigint;
}

const pageSize = 50;
const recentDays = 30;
const recentRange = `${recentDays}d`;
/**
 * The maximum number of applications that are listed because of their recent calls. We take the most expensive ones.
 * Applications with settings are always listed.
 */
const maxUsed = 200;

export async function showApplications(deps: ApplicationListDeps, context: ConsoleContext): Promise<PageResult> {
  const { url, project, role, now } = context;
  const after = url.searchParams.get(pageParameter);
  const matching = (await readApplications(deps, context)).filter(({ source }) => after === null || source > after);
  const { shown: rows, next } = cutPage(matching, pageSize, ({ source }) => source);
  const uses = await readUses(deps, project.id, rows, now);
  const newApplication =
    role === 'owner' ? html`<a class="button primary" href="${projectPath(context, '/applications/new')}">Set limits</a>` : undefined;
  const filters = filterForm(
    context,
    [textField({ name: 'q', label: 'Name contains', type: 'search', value: url.searchParams.get('q') })],
    { keep: [] },
  );
  return {
    kind: 'page',
    title: 'Applications',
    actions: html`${csvLink(context)}${newApplication}`,
    content: html`<p class="lead">Callers name their application in the header <code>x-gateway-source</code>. The settings of an application override those of the project.</p>
${filters}${
  rows.length === 0
    ? emptyState('No applications', `Applications appear here if they made calls in the last ${recentDays} days or have settings.`)
    : applicationTable(context, rows, uses)
}${pager(context, next, { first: 'First', next: 'Next' })}`,
  };
}

function applicationTable(
  context: ConsoleContext,
  rows: readonly ApplicationRow[],
  uses: ReadonlyMap<string, readonly CeilingUse[]>,
): Html {
  return table<ApplicationRow>({
    caption: 'Applications',
    rows,
    rowHref: ({ source }) => applicationPath(context, source),
    columns: [
      { label: 'Application', value: ({ source }) => source, grow: true },
      { label: 'Ceilings (UTC)', value: ({ source }) => ceilingMeters(uses.get(source) ?? []) },
      { label: 'Own tiers', value: ({ settings }) => tierBadges(settings), wideOnly: true },
      {
        label: `Calls, ${recentDays} days`,
        align: 'end',
        value: ({ source, calls }) => html`<a href="${callsPath(context, source)}">${formatCount(calls)}</a>`,
      },
      { label: `Cost, ${recentDays} days`, align: 'end', value: ({ costNanos }) => total(costNanos) },
    ],
  });
}

function tierBadges(settings: ApplicationSettings | null): Html {
  const names = settings === null ? [] : tierNames(settings);
  return names.length === 0 ? html`<span class="muted">None</span>` : html`${names.map((name) => html`<code>${name}</code> `)}`;
}

function tierNames(settings: ApplicationSettings): string[] {
  return [...new Set(Object.values(toTierSets(settings)).flatMap((tiers) => Object.keys(tiers)))];
}

export function applicationPath(context: ConsoleContext, source: string): string {
  return `${projectPath(context, '/applications/application')}?${new URLSearchParams({ name: source })}`;
}

export function callsPath(context: ConsoleContext, source: string): string {
  return `${projectPath(context, '/calls')}?${new URLSearchParams({ source, range: recentRange })}`;
}

async function readApplications(deps: ApplicationListDeps, { project, now, url, zone }: ConsoleContext): Promise<ApplicationRow[]> {
  const { from, to } = parseRange(new URLSearchParams({ range: recentRange }), { zone, now });
  const request = { projectId: project.id, from, to, zone, group: 'source', top: maxUsed } as const;
  const [stored, { groups }] = await Promise.all([
    deps.applications.list(project.id),
    deps.readStored(() => deps.analytics.figures(request), project.id),
  ]);
  const recent = new Map(groups.flatMap(({ name, figures }) => (name === null ? [] : [[name, figures] as const])));
  const settings = new Map(stored.map((application) => [application.source, application.settings]));
  const wanted = url.searchParams.get('q')?.trim().toLowerCase() ?? '';
  const sources = [...new Set([...settings.keys(), ...recent.keys()])].filter((source) => source.toLowerCase().includes(wanted));
  return sources
    .sort((left, right) => (left < right ? -1 : 1))
    .map((source) => {
      const { calls = 0, costNanos = 0n } = recent.get(source) ?? {};
      return { source, settings: settings.get(source) ?? null, calls, costNanos };
    });
}

async function readUses(
  deps: ApplicationListDeps,
  projectId: string,
  rows: readonly Pick<ApplicationRow, 'source' | 'settings'>[],
  now: number,
): Promise<ReadonlyMap<string, readonly CeilingUse[]>> {
  const counters = rows.map(({ source, settings }) =>
    countersOf({ projectId, scope: 'source', scopeId: source }, settings?.ceilings ?? {}, now),
  );
  const counted = await deps.readCounters(
    projectId,
    counters.flat().map(({ key }) => key),
  );
  return new Map(rows.map(({ source }, index) => [source, toUses(counters[index] ?? [], counted)]));
}

export async function readUse(deps: ApplicationListDeps, projectId: string, source: string, settings: ApplicationSettings, now: number) {
  return (await readUses(deps, projectId, [{ source, settings }], now)).get(source) ?? [];
}

export async function exportApplications(deps: ApplicationListDeps, context: ConsoleContext): Promise<PageResult> {
  const header = ['application', 'ceiling_cost', 'ceiling_calls', 'own_tiers', `calls_${recentDays}_days`, `cost_usd_${recentDays}_days`];
  return { kind: 'csv', fileName: `applications-${context.project.slug}.csv`, header, rows: applicationRows(deps, context) };
}

async function* applicationRows(deps: ApplicationListDeps, context: ConsoleContext): AsyncGenerator<readonly CsvValue[]> {
  for (const { source, settings, calls, costNanos } of await readApplications(deps, context)) {
    const limits =
      settings === null
        ? [null, null]
        : [describeCeiling('cost', settings.ceilings.cost), describeCeiling('calls', settings.ceilings.calls)];
    yield [source, ...limits, settings === null ? null : tierNames(settings).join(' '), calls, exactUsd(costNanos)];
  }
}
