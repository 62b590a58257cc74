import { gatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import { fromLocalTime } from '../../core/time-zone.ts';
import type { Queries } from '../../db/database.ts';
import { findItemBeginnings } from '../../memory/items/item-texts.ts';
import type { Audit, AuditEntry, AuditFilter, AuditOutcome } from '../../people/audit.ts';
import type { People } from '../../people/people.ts';
import { findPersonNames } from '../../people/person-names.ts';
import {
  allPages,
  badge,
  type Column,
  csvFile,
  csvLink,
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
import { describeField } from '../frame/field-labels.ts';
import { type Html, html } from '../frame/html.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageResult } from '../frame/route.ts';
import { describeAction, describedActions, isChange, memoriesOf, memoryKey, peopleOf, type SentenceView } from './sentences.ts';

export interface AuditRoutesDeps {
  readonly audit: Pick<Audit, 'list'>;
  readonly people: Pick<People, 'accounts' | 'members'>;
  readonly queries: Queries;
}

const pageSize = 100;
/** No person has this id. We filter by it if nobody has the e-mail address in the filter, so that the list is empty. */
const noPerson = '00000000-0000-0000-0000-000000000000';

export function createAuditRoutes(deps: AuditRoutesDeps): readonly ConsoleRoute[] {
  return [
    get('/audit', 'member', (context) => showAudit(deps, context, context.project.id)),
    get('/audit.csv', 'member', (context) => exportAudit(deps, context, context.project.id)),
    get('/admin/audit', 'admin', (context) => showAudit(deps, context, null)),
    get('/admin/audit.csv', 'admin', (context) => exportAudit(deps, context, null)),
  ];
}

/** `projectId` is null for the audit log of the deployment. */
async function showAudit(deps: AuditRoutesDeps, context: ConsoleContext, projectId: string | null): Promise<PageResult> {
  const { url, zone } = context;
  const query = url.searchParams;
  const before = query.get(pageParameter);
  const filter = await parseFilter(deps, context, projectId);
  const [entries, members] = await Promise.all([
    deps.audit.list({ ...filter, before: before === null ? undefined : parseId(before), limit: pageSize + 1 }),
    projectId === null ? [] : deps.people.members.list(projectId),
  ]);
  const { shown, next } = cutPage(entries, pageSize, ({ id }) => String(id));
  // The audit log also contains failed attempts to change a person, which anybody can make with any id. If we showed
  // the person's name, members could find out whose id it is. So for failed attempts, only admins see the names of
  // people outside the project.
  const { isAdmin } = context.session.person;
  const isKnown = (id: string): boolean => isAdmin || members.some(({ personId }) => personId === id);
  const ids = shown.flatMap((entry) => (entry.outcome === 'ok' ? peopleOf(entry) : peopleOf(entry).filter(isKnown)));
  const [names, beginnings] = await Promise.all([
    findPersonNames(deps.queries, [...new Set(ids)]),
    findItemBeginnings(deps.queries, [...new Set(shown.flatMap(memoriesOf))]),
  ]);
  const memories = new Map(beginnings.map(({ projectId, id, text }) => [memoryKey(projectId, id), text]));
  const view = { names, memories, isAdmin };
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
  textField({
    ...{ name: 'action', label: 'Action', placeholder: 'key.issue', value: query.get('action'), autocomplete: 'off' },
    suggestions: describedActions,
  }),
  textField({ name: 'from', label: `From (${zone})`, type: 'date', value: query.get('from') }),
  textField({ name: 'to', label: `To (${zone})`, type: 'date', value: query.get('to') }),
])}${table<AuditEntry>({
  caption: 'Changes',
  rows: shown,
  empty: query.size === 0 ? 'Changes appear here as soon as they are made.' : 'No change matches the filters.',
  columns: columns(context, projectId === null, view),
})}${pager(context, next)}`,
  };
}

function columns({ zone, url }: ConsoleContext, withProject: boolean, view: SentenceView): Column<AuditEntry>[] {
  return [
    { label: 'Time', value: ({ at }) => time(at, zone) },
    { label: 'What happened', value: (entry) => whatHappened(entry, view, url.pathname), grow: true },
    ...(withProject
      ? [
          {
            label: 'Project',
            value: ({ project }: AuditEntry) => project && html`<a href="/console/p/${project}/audit">${project}</a>`,
          },
        ]
      : []),
    { label: 'Outcome', value: ({ outcome, detail }) => outcomeOf(outcome, detail) },
  ];
}

/**
 * Renders an audit entry as a sentence, with the changed settings below it and the rest of the stored row in a
 * fold-out.
 */
function whatHappened(entry: AuditEntry, view: SentenceView, path: string): Html {
  const changes = changesOf(entry.detail);
  const shown = changes.slice(0, shownChanges);
  const more = changes.length - shown.length;
  return html`<p>${actorOf(entry, path)} ${describeAction(entry, view)}.</p>${
    shown.length === 0
      ? ''
      : html`<ul class="bare changes">${shown.map((line) => html`<li>${line}</li>`)}${more > 0 ? html`<li class="muted">and ${more} more, below</li>` : ''}</ul>`
  }${foldOut(entry, more > 0 ? changes : [])}`;
}

const shownChanges = 4;

function actorOf({ actor, person }: AuditEntry, path: string): Html {
  if (actor === 'admin_token') return html`<strong>The admin token</strong>`;
  const name =
    person === null
      ? html`<strong>A deleted person</strong>`
      : html`<a class="actor" href="${path}?${new URLSearchParams({ person: person.email })}" title="${person.email}">${person.name}</a>`;
  return actor === 'personal_token' ? html`${name}, by a personal token,` : name;
}

function outcomeOf(outcome: AuditOutcome | null, detail: AuditEntry['detail']): Html {
  const tones: Readonly<Record<AuditOutcome, Tone>> = { ok: 'good', refused: 'warning', failed: 'bad' };
  if (outcome === null) return badge('not finished');
  const reason = typeof detail.error === 'string' ? html` <code>${detail.error}</code>` : '';
  return html`${badge(outcome, tones[outcome])}${reason}`;
}

function changesOf(detail: AuditEntry['detail']): Html[] {
  return Object.entries(detail).flatMap(([name, value]) =>
    name === 'role' || !isShown(name, value)
      ? []
      : name === 'added' || name === 'removed'
        ? [html`${describeField(name)}: ${formatSetting(value)}`]
        : linesOf(name, value, describeField),
  );
}

/** Checks whether a detail of the entry is shown right below its sentence. All others are in the fold-out. */
function isShown(name: string, value: unknown): boolean {
  if (name === 'added' || name === 'removed') return isObject(value);
  return name === 'changed' || isChange(value);
}

/** Renders a fold-out with everything else that's stored, e.g. ids for support requests and scripts. */
function foldOut({ action, target, personId, detail }: AuditEntry, changes: readonly Html[]): Html {
  const others = Object.entries(detail).filter(([name, value]) => name === 'role' || !isShown(name, value));
  const stored: (readonly [string, Html | string])[] = [
    ['action', action],
    ...(target === null ? [] : [['target', target] as const]),
    ...(personId === null ? [] : [['by', personId] as const]),
  ];
  const lines = [
    ...stored.map(([name, value]) => html`<code>${name}</code> ${value}`),
    ...others.flatMap(([name, value]) => linesOf(name, value, (path) => html`<code>${path}</code>`)),
    ...changes,
  ];
  return html`<details class="ids"><summary>Details</summary><ul class="bare">${lines.map((line) => html`<li>${line}</li>`)}</ul></details>`;
}

function linesOf(name: string, value: unknown, label: (path: string) => Html | string): Html[] {
  if (isChange(value) && isObject(value.from) && isObject(value.to)) {
    const { from, to } = value;
    const members = [...new Set([...Object.keys(from), ...Object.keys(to)])];
    const changes = members.map((member) => [member, { from: from[member] ?? null, to: to[member] ?? null }] as const);
    return changes.flatMap(([member, change]) =>
      formatSetting(change.from) === formatSetting(change.to) ? [] : linesOf(`${name}.${member}`, change, label),
    );
  }
  if (isChange(value)) return [html`${label(name)}: ${formatSetting(value.from)} → ${formatSetting(value.to)}`];
  if (isObject(value))
    return Object.entries(value).flatMap(([member, inner]) => linesOf(name === 'changed' ? member : `${name}.${member}`, inner, label));
  return [html`${label(name)} ${formatSetting(value)}`];
}

async function parseFilter(
  { people: { accounts } }: AuditRoutesDeps,
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

/** Parses a date and returns the start of the day that comes `offset` days after it. */
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

async function exportAudit(deps: AuditRoutesDeps, context: ConsoleContext, projectId: string | null): Promise<PageResult> {
  const filter = await parseFilter(deps, context, projectId);
  const name = projectId === null ? 'deployment' : context.project.slug;
  return csvFile<AuditEntry>(
    `audit-${name}.csv`,
    {
      id: ({ id }) => id,
      time: ({ at }) => new Date(at).toISOString(),
      actor: ({ actor }) => actor,
      person_id: ({ personId }) => personId,
      person: ({ person }) => person?.email ?? null,
      project: ({ project }) => project,
      action: ({ action }) => action,
      target: ({ target }) => target,
      outcome: ({ outcome }) => outcome,
      detail: ({ detail }) => JSON.stringify(detail),
    },
    allPages(
      (id, limit) => deps.audit.list({ ...filter, before: id === null ? undefined : Number(id), limit }),
      ({ id }) => String(id),
    ),
  );
}
