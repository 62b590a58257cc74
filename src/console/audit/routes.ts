/** The pages with the audit log of a project and of the whole deployment. */

import { gatewayError } from '../../core/errors.ts';
import { fromLocalTime } from '../../core/time-zone.ts';
import type { Audit, AuditEntry, AuditFilter, AuditOutcome } from '../../people/audit.ts';
import {
  badge,
  type Column,
  csvLink,
  csvRows,
  cutPage,
  filterForm,
  formatSetting,
  pageParameter,
  pager,
  type Tone,
  table,
  textField,
  time,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext, ConsoleRoute, CsvValue, PageResult } from '../frame/route.ts';

export interface AuditRoutesDeps {
  readonly audit: Pick<Audit, 'list'>;
  readonly accounts: { findByEmail(email: string): Promise<{ readonly id: string } | null> };
  readonly members: { list(projectId: string): Promise<readonly { readonly email: string }[]> };
}

const pageSize = 100;
/** We filter by this id if no account has the given e-mail address, so that no row matches. */
const noPerson = '00000000-0000-0000-0000-000000000000';

/** Returns null for the audit log of the whole deployment. */
type ProjectOf = (context: ConsoleContext) => string | null;

export function createAuditRoutes(deps: AuditRoutesDeps): readonly ConsoleRoute[] {
  const ofProject: ProjectOf = ({ project }) => project.id;
  const ofDeployment: ProjectOf = () => null;
  return [
    { method: 'get', path: '/audit', access: 'member', handle: (context) => showAudit(deps, context, ofProject) },
    { method: 'get', path: '/audit.csv', access: 'member', handle: (context) => exportAudit(deps, context, ofProject) },
    { method: 'get', path: '/admin/audit', access: 'admin', handle: (context) => showAudit(deps, context, ofDeployment) },
    { method: 'get', path: '/admin/audit.csv', access: 'admin', handle: (context) => exportAudit(deps, context, ofDeployment) },
  ];
}

async function showAudit(deps: AuditRoutesDeps, context: ConsoleContext, projectOf: ProjectOf): Promise<PageResult> {
  const { url, zone } = context;
  const query = url.searchParams;
  const projectId = projectOf(context);
  const before = query.get(pageParameter);
  const filter = await parseFilter(deps, context, projectId);
  const [entries, members] = await Promise.all([
    deps.audit.list({ ...filter, before: before === null ? undefined : parseId(before), limit: pageSize + 1 }),
    projectId === null ? [] : deps.members.list(projectId),
  ]);
  const { shown, next } = cutPage(entries, pageSize, ({ id }) => String(id));
  return {
    kind: 'page',
    title: projectId === null ? 'Audit of the deployment' : 'Audit',
    actions: csvLink(context),
    content: html`<p class="lead">Lists every change that was made by a person or with the admin token. Changes are logged before they are made. Times are in ${zone}.</p>
${filterForm(context, [
  textField({
    name: 'person',
    label: 'Person',
    type: 'search',
    placeholder: 'E-mail address',
    value: query.get('person'),
    suggestions: members.map(({ email }) => email),
  }),
  textField({ name: 'action', label: 'Action', placeholder: 'key.issue', value: query.get('action'), autocomplete: 'off' }),
  textField({ name: 'from', label: `From (${zone})`, type: 'date', value: query.get('from') }),
  textField({ name: 'to', label: `To (${zone})`, type: 'date', value: query.get('to') }),
])}${table<AuditEntry>({
  caption: 'Changes',
  hideCaption: true,
  rows: shown,
  empty: query.size === 0 ? 'Changes appear here as soon as they are made.' : 'No change matches the filters.',
  columns: columns(context, projectId === null),
})}${pager(context, next)}`,
  };
}

function columns({ zone }: ConsoleContext, withProject: boolean): Column<AuditEntry>[] {
  return [
    { label: 'Time', value: ({ at }) => time(at, zone) },
    { label: 'Who', value: actorOf },
    ...(withProject ? [{ label: 'Project', value: ({ project }: AuditEntry) => project }] : []),
    {
      label: 'Action',
      value: ({ action, target }) =>
        html`<code>${action}</code>${target === null ? '' : html`<br><span class="cut muted" title="${target}">${target}</span>`}`,
    },
    { label: 'Outcome', value: ({ outcome }) => outcomeBadge(outcome) },
    { label: 'Detail', value: ({ detail }) => detailOf(detail), grow: true },
  ];
}

function actorOf({ actor, person, personId }: AuditEntry): Html | string {
  if (actor === 'admin_token') return 'Admin token';
  const name =
    person === null
      ? html`<span class="muted">deleted person</span> <code>${personId}</code>`
      : html`<span title="${person.email}">${person.name}</span>`;
  return actor === 'personal_token' ? html`${name} <span class="muted">by token</span>` : name;
}

function outcomeBadge(outcome: AuditOutcome | null): Html {
  const tones: Readonly<Record<AuditOutcome, Tone>> = { ok: 'good', refused: 'warning', failed: 'bad' };
  return outcome === null ? badge('not finished') : badge(outcome, tones[outcome]);
}

/** Lists the details with one line per value. Changed settings show the old and the new value. */
function detailOf(detail: AuditEntry['detail']): Html | string {
  const lines = Object.entries(detail).flatMap(([name, value]) => linesOf(name, value));
  if (lines.length === 0) return '';
  const list = html`<ul class="bare">${lines.map((line) => html`<li>${line}</li>`)}</ul>`;
  return lines.length <= shownLines ? list : html`<details><summary>${lines.length} values</summary>${list}</details>`;
}

const shownLines = 4;

function linesOf(name: string, value: unknown): Html[] {
  if (isChange(value) && isRecord(value.from) && isRecord(value.to)) {
    const { from, to } = value;
    const members = [...new Set([...Object.keys(from), ...Object.keys(to)])];
    const changes = members.map((member) => [member, { from: from[member] ?? null, to: to[member] ?? null }] as const);
    return changes.flatMap(([member, change]) =>
      formatSetting(change.from) === formatSetting(change.to) ? [] : linesOf(`${name}.${member}`, change),
    );
  }
  if (isChange(value)) return [html`<code>${name}</code> ${formatSetting(value.from)} → ${formatSetting(value.to)}`];
  if (isRecord(value))
    return Object.entries(value).flatMap(([member, inner]) => linesOf(name === 'changed' ? member : `${name}.${member}`, inner));
  return [html`<code>${name}</code> ${formatSetting(value)}`];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isChange(value: unknown): value is { readonly from: unknown; readonly to: unknown } {
  return isRecord(value) && Object.keys(value).sort().join() === 'from,to';
}

async function parseFilter(
  { accounts }: AuditRoutesDeps,
  { url, zone }: ConsoleContext,
  projectId: string | null,
): Promise<Omit<AuditFilter, 'limit'>> {
  const query = url.searchParams;
  const email = query.get('person')?.trim() ?? '';
  const person = email === '' ? null : await accounts.findByEmail(email);
  return {
    ...(projectId !== null && { projectId }),
    ...(email !== '' && { personId: person?.id ?? noPerson }),
    ...(query.get('action') && { action: query.get('action') ?? '' }),
    from: dayOf('from', query.get('from'), zone, 0),
    to: dayOf('to', query.get('to'), zone, 1),
  };
}

/** Returns when the day that is `offset` days after the date in `text` starts. */
function dayOf(name: string, text: string | null, zone: string, offset: number): number | undefined {
  if (text === null || text === '') return undefined;
  const [year = 0, month = 0, day = 0] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text)?.slice(1).map(Number) ?? [];
  if (year === 0) throw gatewayError('bad_request', { message: `${name}: must be a date such as 2026-11-22` });
  return fromLocalTime(zone, { year, month, day: day + offset });
}

function parseId(text: string): number {
  const id = Number(text);
  if (Number.isSafeInteger(id) && id > 0) return id;
  throw gatewayError('bad_request', { message: `${pageParameter}: must be the id of an entry` });
}

async function exportAudit(deps: AuditRoutesDeps, context: ConsoleContext, projectOf: ProjectOf): Promise<PageResult> {
  const projectId = projectOf(context);
  const filter = await parseFilter(deps, context, projectId);
  const name = projectId === null ? 'deployment' : context.project.slug;
  const header = ['id', 'time', 'actor', 'person_id', 'person', 'project', 'action', 'target', 'outcome', 'detail'];
  return {
    kind: 'csv',
    fileName: `audit-${name}.csv`,
    header,
    rows: csvRows({
      readPage: (id, limit) => deps.audit.list({ ...filter, before: id === null ? undefined : Number(id), limit }),
      keyOf: ({ id }) => String(id),
      toCsv: csvRow,
    }),
  };
}

function csvRow({ id, at, actor, personId, person, project, action, target, outcome, detail }: AuditEntry): CsvValue[] {
  const email = person?.email ?? null;
  return [id, new Date(at).toISOString(), actor, personId, email, project, action, target, outcome, JSON.stringify(detail)];
}
