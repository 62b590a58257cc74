/** The list of calls, with filters, a histogram, live updates and CSV export. */
import type { CallFilter } from '../../usage/analytics/call-filter.ts';
import type { CallSummary } from '../../usage/analytics/call-list.ts';
import type { Figures } from '../../usage/analytics/figures.ts';
import { parseRange, unitFor } from '../../usage/analytics/range.ts';
import type { UnitFigures } from '../../usage/analytics/read-figures.ts';
import { TooManyCalls } from '../../usage/analytics/row-limit.ts';
import { activeFilters, callFilterForm, filterQuery, readCallFilter } from '../frame/call-filters.ts';
import {
  badge,
  barChart,
  card,
  countOf,
  csvFile,
  csvLink,
  equalUsd,
  exactUsd,
  formatCount,
  formatDuration,
  formatTimeIn,
  pageParameter,
  pager,
  parsePageId,
  table,
  time,
  totalUsd,
  withQuery,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { ownCallsLine, readFigures, readOwnFigures } from '../frame/own-calls.ts';
import { findPath } from '../frame/palette.ts';
import { projectPath } from '../frame/project-path.ts';
import { refusedLine } from '../frame/refused-line.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageResult } from '../frame/route.ts';
import { orTooMany, rowLimit, tooManyCalls } from '../frame/row-limit.ts';
import { periodQuery, rangePicker, rangeQuery } from '../frame/time-range.ts';
import type { CallsDeps } from './deps.ts';
import { outcomeBadge } from './outcome.ts';

const pageSize = 50;

export function createCallListRoutes(deps: CallsDeps): readonly ConsoleRoute[] {
  return [
    get('/calls', 'member', (context) => deps.readStored(() => showCalls(deps, context), context.project.id)),
    get('/calls.csv', 'member', (context) => deps.readStored(() => exportCalls(deps, context), context.project.id)),
    // Polled for live updates. Always returns the whole first page, because long calls are stored late and may belong
    // between calls that are already shown.
    get('/calls/live', 'member', async (context) => {
      const { calls } = await deps.analytics.callPage({ ...readView(context).selection, limit: pageSize });
      return { kind: 'fragment', content: callTable(context, calls) };
    }),
  ];
}

function readView(context: ConsoleContext) {
  const { url, project, zone, now, signal } = context;
  const range = parseRange(url.searchParams, { zone, now });
  const filter = readCallFilter(context);
  const before = parsePageId(context);
  const isLive = url.searchParams.get('live') === '1' && before === null;
  return { range, filter, selection: { projectId: project.id, from: range.from, to: range.to, filter, signal }, before, isLive };
}

async function showCalls({ analytics, filterChoices }: CallsDeps, context: ConsoleContext): Promise<PageResult> {
  const { zone, url } = context;
  // Refused calls have neither a model nor a cost, so they have a list of their own.
  if (url.searchParams.get('result') === 'refused') {
    const given = { source: url.searchParams.get('source'), key: url.searchParams.get('key') };
    return { kind: 'redirect', to: projectPath(context, '/calls/refused', { ...rangeQuery(context), ...given }) };
  }
  const { range, filter, selection, before, isLive } = readView(context);
  const unit = unitFor(range);
  const figures = { ...selection, zone, unit, ...rowLimit(context) };
  const { projectId, from, to, signal } = selection;
  const { source, key } = filter;
  const [page, { report, hasOwn }, own, choices, refused] = await Promise.all([
    orTooMany(analytics.callPage({ ...selection, before, limit: pageSize, ...rowLimit(context) })),
    readFigures(analytics, figures),
    readOwnFigures(analytics, figures),
    filterChoices(context),
    analytics.refusedCounts({ projectId, from, to, signal, source, key }),
  ]);
  const list = page instanceof TooManyCalls ? '' : callTable(context, page.calls);
  const content = html`${searchForm(context)}${rangePicker(context, range)}
${callFilterForm(context, filter, { choices, keep: ['live'], results: [{ value: 'refused', label: 'Refused by the gateway' }] })}
${activeFilters(context, filter)}
${refusedLine(context, refused, { source, key })}
${report instanceof TooManyCalls ? tooManyCalls(context, range, report) : report.total.calls === 0 ? '' : card(histogram(context, filter, unit, report.units))}
<div class="page-head">${report instanceof TooManyCalls ? '' : summaryOf(context, report.total)}<div class="actions">${liveControls(context, isLive)}${csvLink(context)}</div></div>
${ownCallsLine(context, own, hasOwn)}
${isLive ? html`<div hx-get="${livePath(context)}" hx-trigger="every 2s" hx-swap="innerHTML" aria-live="off">${list}</div>` : list}
${isLive || page instanceof TooManyCalls ? '' : pager(context, page.next)}`;
  return { kind: 'page', title: 'Calls', content };
}

/** The search ignores the filters and the period of the list. */
function searchForm(context: ConsoleContext): Html {
  const hint = 'Call id, task, request id of a vendor, or end user';
  return html`<form class="find" method="get" action="${projectPath(context, findPath)}" role="search" aria-label="Find a call">
<label class="hidden" for="find-call">Find a call by its id, task, request id or end user</label><input id="find-call" name="q" type="search" required autocomplete="off" placeholder="${hint}"><button class="button">Find</button></form>`;
}

function summaryOf(context: ConsoleContext, { calls, errors, costNanos, unpriced }: Figures): Html {
  return html`<p class="muted">${countOf(calls, 'call')}, ${countOf(errors, 'error')}, ${totalUsd(costNanos)}${
    unpriced === 0
      ? ''
      : html` and <a href="${withQuery(context, { price: 'unknown', [pageParameter]: null })}">${formatCount(unpriced)} with unknown cost</a>`
  }</p>`;
}

function liveControls(context: ConsoleContext, isLive: boolean): Html {
  const refresh = html`<a class="button plain" href="${withQuery(context, { [pageParameter]: null })}">Refresh</a>`;
  if (!isLive) return html`${refresh}<a class="button" href="${withQuery(context, { live: 1, [pageParameter]: null })}">Go live</a>`;
  return html`${badge('live', 'good')}${refresh}<a class="button" href="${withQuery(context, { live: null })}">Pause</a>`;
}

function livePath(context: ConsoleContext): string {
  return projectPath(context, '/calls/live', Object.fromEntries(context.url.searchParams));
}

function histogram(context: ConsoleContext, filter: CallFilter, unit: ReturnType<typeof unitFor>, units: readonly UnitFigures[]): Html {
  const { zone } = context;
  return barChart({
    title: `Calls per ${unit}`,
    zone,
    unit,
    wholeNumbers: true,
    series: [{ name: 'Successful' }, { name: 'Errors', tone: 'bad', href: withQuery(context, { result: 'error', [pageParameter]: null }) }],
    buckets: units.map(({ start, end, figures: { calls, errors } }) => ({
      start,
      values: [calls - errors, errors],
      href: projectPath(context, '/calls', { ...periodQuery({ from: start, to: end }, zone), ...filterQuery(filter) }),
    })),
    format: formatCount,
  });
}

function callTable(context: ConsoleContext, calls: readonly CallSummary[]): Html {
  const { zone } = context;
  const money = equalUsd(calls.map(({ costNanos }) => costNanos));
  return table<CallSummary>({
    caption: 'Calls, newest first',
    rows: calls,
    empty: 'No calls in this period match the filters.',
    rowHref: ({ id }) => projectPath(context, `/calls/${id}`),
    columns: [
      { label: 'Time', value: ({ startedAt }) => time(startedAt, zone) },
      { label: 'Result', value: outcomeBadge },
      { label: 'Application', value: ({ source }) => source },
      { label: 'Model', value: modelOf },
      {
        label: 'Tokens',
        align: 'end',
        wideOnly: true,
        value: ({ input, cachedInput, cacheWrite, output }) =>
          html`${formatCount(input + cachedInput + cacheWrite)}<span class="muted"> in </span>${formatCount(output)}<span class="muted"> out</span>`,
      },
      { label: 'Cost', align: 'end', value: ({ costNanos }) => money(costNanos) },
      { label: 'Latency', align: 'end', value: latencyOf },
    ],
  });
}

function latencyOf({ durationMs, stream, firstByteMs }: CallSummary): Html {
  const first = stream && firstByteMs !== null ? html`<br><span class="muted">first ${formatDuration(firstByteMs)}</span>` : '';
  return html`${formatDuration(durationMs)}${first}`;
}

function modelOf({ model, requestedModel, cache, attempts }: CallSummary): Html {
  const asked = model === requestedModel ? '' : html` <span class="muted">for ${requestedModel}</span>`;
  const hit = cache === 'hit' ? html` ${badge('cached', 'accent')}` : '';
  const failover = attempts > 1 ? html` ${badge(`${attempts} attempts`, 'warning')}` : '';
  return html`${model ?? html`<span class="muted">No model</span>`}${asked}${hit}${failover}`;
}

async function exportCalls({ analytics }: CallsDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, zone } = context;
  const { selection } = readView(context);
  return csvFile<CallSummary>(
    `${project.slug}-calls-${formatTimeIn(selection.from, zone, 'date')}.csv`,
    {
      id: ({ id }) => id,
      [`time (${zone})`]: ({ startedAt }) => formatTimeIn(startedAt, zone, 'millisecond'),
      started_at_utc: ({ startedAt }) => startedAt.toISOString(),
      application: ({ source }) => source,
      key: ({ keyPrefix }) => keyPrefix,
      route: ({ route }) => route,
      model_asked: ({ requestedModel }) => requestedModel,
      model: ({ model }) => model,
      stream: ({ stream }) => stream,
      status: ({ status }) => status,
      code: ({ code }) => code,
      outcome: ({ outcome }) => outcome,
      cache: ({ cache }) => cache,
      input_tokens: ({ input }) => input,
      cached_input_tokens: ({ cachedInput }) => cachedInput,
      cache_write_tokens: ({ cacheWrite }) => cacheWrite,
      output_tokens: ({ output }) => output,
      cost_usd: ({ costNanos }) => (costNanos === null ? null : exactUsd(costNanos)),
      duration_ms: ({ durationMs }) => durationMs,
      first_byte_ms: ({ firstByteMs }) => firstByteMs,
      attempts: ({ attempts }) => attempts,
      task_id: ({ taskId }) => taskId,
      turn_id: ({ turnId }) => turnId,
      agent_id: ({ agentId }) => agentId,
    },
    analytics.streamCalls(selection),
  );
}
