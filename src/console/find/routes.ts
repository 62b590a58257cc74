/**
 * Finds pages, projects, keys and calls by one text. The results are a page of their own, and with JavaScript also the
 * command palette that Ctrl K opens (`frame/palette.js`).
 */
import { addDays, startOf } from '../../core/time-zone.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { Person, Role } from '../../people/person.ts';
import { toFilterValue } from '../../usage/analytics/call-filter.ts';
import type { FoundCalls } from '../../usage/analytics/find-calls.ts';
import { emptyState, filterForm, formatTimeIn, section, textField } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import type { NavGroup } from '../frame/nav.ts';
import { findPath, findResultsPath } from '../frame/palette.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, ConsoleRoute, PageResult } from '../frame/route.ts';
import { periodQuery } from '../frame/time-range.ts';

export interface FindDeps {
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
  readonly findCalls: (projectId: string, text: string) => Promise<FoundCalls>;
  readonly listKeys: (projectId: string) => Promise<readonly KeyRecord[]>;
  readonly projectsOf: (person: Person) => Promise<readonly { readonly slug: string; readonly name: string }[]>;
  /** Returns the pages that the person may open. */
  readonly pagesFor: (view: { readonly slug: string; readonly role: Role; readonly isAdmin: boolean }) => readonly NavGroup[];
}

interface Hit {
  readonly label: string;
  readonly detail?: string;
  readonly href: string;
}

interface HitGroup {
  readonly title: string;
  readonly hits: readonly Hit[];
}

/** The maximum number of results of each kind. */
const maxHits = 8;

export function createFindRoutes(deps: FindDeps): readonly ConsoleRoute[] {
  return [
    { method: 'get', path: findPath, access: 'member', handle: (context) => deps.readStored(() => showResults(deps, context)) },
    {
      method: 'get',
      path: findResultsPath,
      access: 'member',
      handle: (context) =>
        deps.readStored(async () => ({ kind: 'fragment', content: results(await find(deps, context), textOf(context), true) })),
    },
  ];
}

function textOf({ url }: ConsoleContext): string {
  return (url.searchParams.get('q') ?? '').trim();
}

async function showResults(deps: FindDeps, context: ConsoleContext): Promise<PageResult> {
  const text = textOf(context);
  const groups = await find(deps, context);
  const calls = groups.filter(({ title }) => callTitles.has(title)).flatMap(({ hits }) => hits);
  const [only] = calls;
  // Somebody who enters a whole id wants to see what it belongs to.
  if (only && calls.length === 1 && groups.every(({ title }) => callTitles.has(title))) return { kind: 'redirect', to: only.href };
  const field = textField({
    name: 'q',
    label: 'Id or name',
    type: 'search',
    value: text,
    required: true,
    autocomplete: 'off',
    hint: 'The id of a call, a task, the request id of a vendor, an end user, or the name of a key, page or project.',
  });
  return {
    kind: 'page',
    title: 'Search',
    content: html`${filterForm(context, [field], { submit: 'Search' })}${results(groups, text, false)}`,
  };
}

const callTitles: ReadonlySet<string> = new Set(['Calls', 'Tasks', 'End users']);

async function find(deps: FindDeps, context: ConsoleContext): Promise<readonly HitGroup[]> {
  const { project, session, role } = context;
  const text = textOf(context);
  const [found, keys, projects] = await Promise.all([
    deps.findCalls(project.id, text),
    text === '' ? [] : deps.listKeys(project.id),
    deps.projectsOf(session.person),
  ]);
  const matches = (...values: readonly string[]): boolean => values.some((value) => value.toLowerCase().includes(text.toLowerCase()));
  const pages = deps.pagesFor({ slug: project.slug, role, isAdmin: session.person.isAdmin });
  const groups: readonly HitGroup[] = [
    { title: 'Calls', hits: found.calls.map((call) => callHit(context, call)) },
    { title: 'Tasks', hits: callsHit(context, found.taskAt, { task: toFilterValue(text) }, `Calls of the task ${text}`) },
    { title: 'End users', hits: callsHit(context, found.subjectAt, { subject: text }, `Calls about the end user ${text}`) },
    {
      title: 'Keys',
      hits: keys
        .filter(({ name, prefix }) => matches(name, prefix))
        .map(({ name, prefix }) => ({ label: name, detail: prefix, href: projectPath(context, `/keys/${prefix}`) })),
    },
    {
      title: 'Pages',
      hits: pages.flatMap(({ label: group, links }) =>
        links.filter(({ label }) => matches(label, group)).map(({ label, href }) => ({ label, detail: group, href })),
      ),
    },
    {
      title: 'Projects',
      hits: projects
        .filter(({ slug, name }) => slug !== project.slug && matches(slug, name))
        .map(({ slug, name }) => ({ label: name, ...(name !== slug && { detail: slug }), href: `/console/p/${slug}` })),
    },
  ];
  const all = groups.map(({ title, hits }) => ({ title, hits: text === '' && title === 'Pages' ? hits : hits.slice(0, maxHits) }));
  return all.filter(({ hits }) => hits.length > 0);
}

function callHit(context: ConsoleContext, { id, startedAt, model, requestedModel, status }: FoundCalls['calls'][number]): Hit {
  const detail = `${formatTimeIn(startedAt, context.zone)}, ${status}`;
  return { label: `Call of ${model ?? requestedModel}`, detail, href: projectPath(context, `/calls/${id}`) };
}

/** Links to the calls of the week that ends with the latest one. */
function callsHit(context: ConsoleContext, latest: Date | null, filter: Readonly<Record<string, string>>, label: string): readonly Hit[] {
  if (latest === null) return [];
  const { zone } = context;
  const day = startOf('day', zone, latest.getTime());
  const period = periodQuery({ from: addDays(zone, day, -6), to: addDays(zone, day, 1) }, zone);
  return [{ label, detail: `latest ${formatTimeIn(latest, zone)}`, href: projectPath(context, '/calls', { ...period, ...filter }) }];
}

function results(groups: readonly HitGroup[], text: string, isCompact: boolean): Html {
  if (groups.length === 0)
    return text === ''
      ? html``
      : emptyState(
          isCompact ? null : 'Nothing found',
          html`No call, task, request id, end user, key, page or project matches <strong>${text}</strong>. Ids of calls, tasks, requests and end users have to be complete.`,
        );
  return html`${groups.map(({ title, hits }) => {
    const list = html`<ul class="found">${hits.map(
      ({ label, detail, href }) =>
        html`<li><a href="${href}"><span>${label}</span>${detail === undefined ? '' : html` <span class="muted">${detail}</span>`}</a></li>`,
    )}</ul>`;
    return isCompact ? html`<h2 class="found-title">${title}</h2>${list}` : section(title, list);
  })}`;
}
