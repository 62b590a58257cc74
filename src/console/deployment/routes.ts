/**
 * Pages for deployment admins. The overview of the whole deployment shows spend, calls, errors, caps and the health of
 * providers. `project-routes.ts` lists and creates projects.
 */
import { share } from '../../usage/analytics/metrics.ts';
import { parseRange, type Range } from '../../usage/analytics/range.ts';
import {
  barChart,
  card,
  csvLink,
  exactUsd,
  formatCount,
  formatPercent,
  formatTimeIn,
  notice,
  type Stat,
  section,
  statDelta,
  stats,
  totalUsd,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { healthRule } from '../frame/provider-health.ts';
import { type ConsoleContext, type ConsoleRoute, type CsvValue, get, type PageResult } from '../frame/route.ts';
import { rowLimit, tooManyCalls } from '../frame/row-limit.ts';
import { describePeriod, rangePicker } from '../frame/time-range.ts';
import { createProjectRoutes } from './project-routes.ts';
import {
  type Compared,
  chartUnit,
  type DeploymentDeps,
  maxProjects,
  type ProjectFigures,
  readChart,
  readKeys,
  readModels,
  readOwnCalls,
  readPeople,
  readProjects,
  readProviders,
  sumOf,
} from './read-deployment.ts';
import { keyTable, modelTable, personTable, projectHref, projectTable, providerTable } from './tables.ts';

const path = '/admin/overview';
/** A chart has eight colours, so it shows seven projects and sums up the rest as "Others". */
const chartProjects = 7;
const shownProjects = 25;

export function createDeploymentRoutes(deps: DeploymentDeps): readonly ConsoleRoute[] {
  return [
    get(path, 'admin', (context) => deps.readStored(() => showDeployment(deps, context))),
    get(`${path}.csv`, 'admin', (context) => deps.readStored(() => exportDeployment(deps, context))),
    ...createProjectRoutes(deps),
  ];
}

async function showDeployment(deps: DeploymentDeps, context: ConsoleContext): Promise<PageResult> {
  const { view, isCut } = await createView(deps, context);
  const { range, zone } = view;
  const figures = (await readProjects(deps, view)).toSorted(bySpend);
  const active = figures.filter(({ current, previous }) => current.calls > 0 || previous.calls > 0);
  const top = figures.filter(({ current }) => current.costNanos > 0n).slice(0, chartProjects);
  const shown = top.map(({ project }) => project.id);
  const isComplete = rowLimit(context).maxRows === undefined;
  const [chart, keys, models, people, providers, own] = await Promise.all([
    readChart(deps, view, shown),
    readKeys(deps, view),
    readModels(deps, view),
    readPeople(deps, view),
    readProviders(deps, view, isComplete),
    readOwnCalls(deps, view),
  ]);
  const total = { current: sumOf(figures.map((row) => row.current)), previous: sumOf(figures.map((row) => row.previous)) };
  const idle = figures.length - active.length;
  const more = [
    ...(active.length > shownProjects ? [`${formatCount(active.length - shownProjects)} more projects made calls.`] : []),
    ...(idle > 0 ? [`${formatCount(idle)} ${idle === 1 ? 'project' : 'projects'} made no calls.`] : []),
  ].join(' ');
  return {
    kind: 'page',
    title: 'Deployment overview',
    actions: csvLink(context),
    content: html`${rangePicker(context, range)}
${isCut ? notice(`There are too many projects to add up. These figures are about the first ${formatCount(maxProjects)}.`, 'warning') : ''}
${stats(statsOf(total, figures))}
<p class="hint">Before: ${describePeriod(range.previous, zone)}. ${ownCallsLine(own.calls, own.costNanos)}</p>
${section('Spend', card(spendChart(context, range, top, chart)))}
${section(
  'Projects',
  html`${projectTable(context, active.slice(0, shownProjects), total)}${more === '' ? '' : html`<p class="hint">${more}</p>`}`,
  {
    actions: html`<a href="/console/admin/projects">All projects</a>`,
    hint: 'Errors are calls that failed. Calls whose caller disconnected don’t count.',
  },
)}
${section(
  'Providers',
  html`${providers.tooMany === null ? '' : tooManyCalls(context, range, providers.tooMany)}${providerTable(context, providers.rows)}`,
  {
    hint: `${healthRule} Attempts include those before a failover.`,
  },
)}
${section('Models', modelTable(models), { hint: 'The ten models with the highest spend, by the model that answered.' })}
${section('Keys', keyTable(keys), { hint: 'The ten keys with the highest spend.' })}
${section('People', personTable(people), { hint: 'What people spent in the playground. Other calls are made by applications with keys.' })}`,
  };
}

async function createView({ projects }: DeploymentDeps, { url, zone, now, signal }: ConsoleContext) {
  const all = await projects.list();
  const view = { projects: all.slice(0, maxProjects), range: parseRange(url.searchParams, { zone, now }), zone, now, signal };
  return { view, isCut: all.length > maxProjects };
}

function bySpend(left: ProjectFigures, right: ProjectFigures): number {
  return Number(right.current.costNanos - left.current.costNanos) || right.current.calls - left.current.calls;
}

function ownCallsLine(calls: number, costNanos: bigint): string {
  if (calls === 0) return '';
  return `The spend includes ${totalUsd(costNanos)} for ${formatCount(calls)} ${calls === 1 ? 'call' : 'calls'} that the gateway made for memory.`;
}

function statsOf({ current, previous }: Compared, rows: readonly ProjectFigures[]): Stat[] {
  const errorShare = share(current.errors, current.calls);
  const capped = rows.filter(({ monthNanos }) => monthNanos !== null);
  const full = capped.filter(({ project, monthNanos }) => Number(monthNanos) >= 0.8 * (project.settings.monthlyCapNanos ?? 0));
  return [
    {
      label: 'Spend',
      value: totalUsd(current.costNanos),
      hint: `${totalUsd(previous.costNanos)} before${current.unpriced === 0 ? '' : `; ${formatCount(current.unpriced)} calls have no price`}`,
      ...statDelta(Number(current.costNanos), Number(previous.costNanos), null),
    },
    {
      label: 'Calls',
      value: formatCount(current.calls),
      hint: `${formatCount(previous.calls)} before`,
      ...statDelta(current.calls, previous.calls, null),
    },
    {
      label: 'Error rate',
      value: formatPercent(errorShare),
      hint: `${formatCount(current.errors)} of ${formatCount(current.calls)} calls`,
      ...statDelta(errorShare, share(previous.errors, previous.calls), false),
    },
    {
      label: 'Caps nearly reached',
      value: formatCount(full.length),
      hint: `of ${formatCount(capped.length)} projects with a monthly cap, counting from 80%`,
    },
  ];
}

function spendChart(
  context: ConsoleContext,
  range: Range,
  top: readonly ProjectFigures[],
  units: Awaited<ReturnType<typeof readChart>>,
): Html {
  const { zone } = context;
  const unit = chartUnit(range);
  const hasOthers = units.some(({ costs }) => (costs.at(-1) ?? 0n) !== 0n);
  return barChart({
    title: `Spend by ${unit} and project`,
    zone,
    unit,
    series: [
      ...top.map(({ project }) => ({ name: project.name, href: projectHref(context, project.slug) })),
      ...(hasOthers ? [{ name: 'Others' }] : []),
    ],
    buckets: units.map(({ start, costs }) => ({ start, values: (hasOthers ? costs : costs.slice(0, -1)).map(Number) })),
    format: totalUsd,
  });
}

async function exportDeployment(deps: DeploymentDeps, context: ConsoleContext): Promise<PageResult> {
  const { view } = await createView(deps, context);
  const figures = (await readProjects(deps, view)).toSorted(bySpend);
  const rows = figures.map(({ project, current, previous, monthNanos }): CsvValue[] => [
    ...[project.slug, project.name, current.calls, current.errors, exactUsd(current.costNanos), current.unpriced],
    ...[previous.calls, previous.errors, exactUsd(previous.costNanos)],
    project.settings.monthlyCapNanos === null ? null : exactUsd(project.settings.monthlyCapNanos),
    monthNanos === null ? null : exactUsd(monthNanos),
  ]);
  return {
    kind: 'csv',
    fileName: `deployment-${formatTimeIn(view.range.from, view.zone, 'date')}.csv`,
    header: [
      ...['project', 'name', 'calls', 'errors', 'cost_usd', 'calls_of_unknown_cost', 'calls_before', 'errors_before', 'cost_usd_before'],
      ...['monthly_cap_usd', 'month_to_date_usd'],
    ],
    rows,
  };
}
