/** The list of refused calls by reason, with filters and CSV export. */
import { gatewayError } from '../../core/errors.ts';
import { refusalReasons } from '../../core/refusal.ts';
import { parseRange } from '../../usage/analytics/range.ts';
import { reasonLabels } from '../../usage/refusals/explain-refusal.ts';
import {
  maxCountedRows,
  type RefusalCounts,
  type RefusalFilter,
  type RefusedCallRow,
  startOfRefused,
} from '../../usage/refusals/read-refusals.ts';
import { maxRowsPerMinute } from '../../usage/refusals/recorder.ts';
import { type FilterChoices, toKeyOption } from '../frame/call-filters.ts';
import {
  allPages,
  anyOption,
  badge,
  csvFile,
  csvLink,
  cutPage,
  filterForm,
  formatCount,
  formatTimeIn,
  notice,
  pager,
  parsePageId,
  section,
  selectField,
  table,
  textField,
  time,
  toOptions,
  withChosen,
  withQuery,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { pageParameter } from '../frame/navigation.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageResult } from '../frame/route.ts';
import { rangeParameters, rangePicker, rangeQuery } from '../frame/time-range.ts';
import type { CallsDeps } from './deps.ts';

const pageSize = 50;

/** Register these routes before `/calls/:id`. */
export function createRefusedListRoutes(deps: CallsDeps): readonly ConsoleRoute[] {
  return [
    get('/calls/refused', 'member', (context) => deps.readStored(() => showRefused(deps, context), context.project.id)),
    get('/calls/refused.csv', 'member', (context) => deps.readStored(() => exportRefused(deps, context), context.project.id)),
  ];
}

async function showRefused({ analytics, filterChoices }: CallsDeps, context: ConsoleContext): Promise<PageResult> {
  const { range, filter, selection } = readView(context);
  const before = parsePageId(context);
  const [rows, counts, choices] = await Promise.all([
    analytics.refusedPage({ ...selection, before, limit: pageSize + 1 }),
    analytics.refusedCounts(selection),
    filterChoices(context),
  ]);
  const { shown, next } = cutPage(rows, pageSize, ({ id }) => id);
  const content = html`${rangePicker(context, range)}
${refusedFilters(context, filter, choices)}
${unrecordedNotice(counts)}
<div class="page-head">${summaryOf(counts, filter)}<div class="actions">${csvLink(context)}</div></div>
${byReason(context, filter, counts)}
${section('Newest first', refusedTable(context, shown))}
${pager(context, next)}`;
  const calls = projectPath(context, '/calls', rangeQuery(context));
  return { kind: 'page', title: 'Refused calls', breadcrumbs: [{ label: 'Calls', href: calls }], content };
}

function readView({ url, project, zone, now, signal }: ConsoleContext) {
  const range = parseRange(url.searchParams, { zone, now });
  const text = (name: string): string | null => {
    const value = url.searchParams.get(name)?.trim() || null;
    if (value !== null && (value.length > 256 || /[\0\p{Cs}]/u.test(value)))
      throw gatewayError('bad_request', { message: `${name}: must be text of at most 256 characters` });
    return value;
  };
  const given = text('reason');
  const reason = refusalReasons.find((name) => name === given) ?? null;
  if (given !== null && reason === null)
    throw gatewayError('bad_request', { message: `reason: must be one of ${refusalReasons.join(', ')}` });
  const filter = { reason, key: text('key'), source: text('source') };
  return { range, filter, selection: { ...filter, projectId: project.id, from: range.from, to: range.to, signal } };
}

function refusedFilters(context: ConsoleContext, { reason, key, source }: RefusalFilter, choices: FilterChoices): Html {
  const keys = withChosen([anyOption, ...choices.keys.map(toKeyOption)], key);
  return filterForm(
    context,
    [
      selectField({ name: 'reason', label: 'Reason', value: reason, options: [anyOption, ...toOptions(reasonLabels)] }),
      selectField({ name: 'key', label: 'Key', value: key, options: keys }),
      textField({
        ...{ name: 'source', label: 'Application', value: source ?? '', placeholder: 'Any', autocomplete: 'off' },
        suggestions: choices.applications,
      }),
    ],
    { keep: rangeParameters },
  );
}

/** Says how many refused calls are missing from the list, because they were only counted. */
function unrecordedNotice({ calls, recorded }: RefusalCounts): Html | string {
  const missing = calls - recorded;
  if (missing <= 0) return '';
  const more = missing === 1 ? '1 more refused call was' : `${formatCount(missing)} more refused calls were`;
  return notice(
    `${more} counted but not recorded, because the list only takes ${maxRowsPerMinute} refused calls of a key per minute from each process.`,
  );
}

function summaryOf({ calls }: RefusalCounts, { source }: RefusalFilter): Html {
  const isCut = Boolean(source) && calls >= maxCountedRows;
  const note = source ? ' with a row' : '';
  return html`<p class="muted">${isCut ? 'More than ' : ''}${formatCount(calls)} refused ${calls === 1 ? 'call' : 'calls'}${note}</p>`;
}

function byReason(context: ConsoleContext, { reason }: RefusalFilter, counts: RefusalCounts): Html | string {
  if (reason || counts.byReason.length < 2) return '';
  return table({
    caption: 'Refused calls by reason',
    rows: counts.byReason,
    rowHref: (row) => withQuery(context, { reason: row.reason, [pageParameter]: null }),
    columns: [
      { label: 'Reason', grow: true, value: (row) => reasonLabels[row.reason] },
      { label: 'Calls', align: 'end', value: (row) => formatCount(row.calls) },
    ],
  });
}

function refusedTable(context: ConsoleContext, rows: readonly RefusedCallRow[]): Html {
  return table<RefusedCallRow>({
    caption: 'Refused calls, newest first',
    rows,
    empty: 'No refused calls in this period match the filters.',
    rowHref: ({ id }) => projectPath(context, `/calls/${id}`),
    columns: [
      { label: 'Time', value: (row) => time(startOfRefused(row), context.zone) },
      { label: 'Status', value: ({ status }) => badge(String(status), 'warning') },
      { label: 'Reason', grow: true, value: reasonOf },
      { label: 'Application', value: ({ source }) => source ?? html`<span class="muted">Not known</span>` },
      { label: 'Key', wideOnly: true, value: ({ keyName, keyPrefix }) => keyName ?? keyPrefix },
      { label: 'Requested model', value: ({ requestedModel }) => requestedModel ?? html`<span class="muted">Not read</span>` },
    ],
  });
}

function reasonOf({ reason, rule }: RefusedCallRow): Html {
  return html`${reasonLabels[reason]}${rule === null ? '' : html` <span class="muted">${rule}</span>`}`;
}

async function exportRefused({ analytics }: CallsDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, zone } = context;
  const { selection } = readView(context);
  return csvFile<RefusedCallRow>(
    `${project.slug}-refused-calls-${formatTimeIn(selection.from, zone, 'date')}.csv`,
    {
      id: ({ id }) => id,
      [`time (${zone})`]: (row) => formatTimeIn(startOfRefused(row), zone, 'millisecond'),
      status: ({ status }) => status,
      code: ({ code }) => code,
      reason: ({ reason }) => reason,
      rule: ({ rule }) => rule,
      application: ({ source }) => source,
      key: ({ keyPrefix }) => keyPrefix,
      route: ({ route }) => route,
      model_asked: ({ requestedModel }) => requestedModel,
    },
    allPages(
      (before, limit) => analytics.refusedPage({ ...selection, before, limit }),
      ({ id }) => id,
    ),
  );
}
