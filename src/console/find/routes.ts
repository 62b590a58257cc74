/**
 * Searches for pages, projects, keys and calls. Shows the results on a page of their own. With JavaScript, you can also
 * press Ctrl K and search in the command palette (`frame/palette.js`).
 */
import { addDays, startOf } from '../../core/time-zone.ts';
import type { Queries } from '../../db/database.ts';
import type { Keyring } from '../../keys/keyring.ts';
import { listSubjects, type SubjectList } from '../../memory/records/subjects.ts';
import type { People } from '../../people/people.ts';
import type { Role } from '../../people/person.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { toFilterValue } from '../../usage/analytics/call-filter.ts';
import type { FoundCalls } from '../../usage/analytics/find-calls.ts';
import { reasonLabels } from '../../usage/refusals/explain-refusal.ts';
import { startOfRefused } from '../../usage/refusals/read-refusals.ts';
import { emptyState, filterForm, formatTimeIn, section, textField } from '../frame/components.ts';
import { endUserPath, endUserPathOfHash, endUsersPath } from '../frame/end-user.ts';
import { type Html, html } from '../frame/html.ts';
import type { NavGroup } from '../frame/nav.ts';
import { findPath, findResultsPath } from '../frame/palette.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageResult } from '../frame/route.ts';
import { periodQuery } from '../frame/time-range.ts';

export interface FindDeps {
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
  readonly analytics: Pick<Analytics, 'find'>;
  readonly queries: Queries;
  readonly keyring: Pick<Keyring, 'list'>;
  readonly people: Pick<People, 'members'>;
  readonly pagesFor: (view: { readonly slug: string; readonly role: Role; readonly isAdmin: boolean }) => readonly NavGroup[];
}

interface Hit {
  readonly label: string;
  readonly detail?: string;
  readonly href: string;
  /** True if the text is the complete id of this hit. */
  readonly isWhole?: boolean;
}

interface HitGroup {
  readonly title: string;
  readonly hits: readonly Hit[];
}

const maxHits = 8;
/** Leaves room for the last line, which links to the complete list. */
const maxEndUsers = maxHits - 1;

export function createFindRoutes(deps: FindDeps): readonly ConsoleRoute[] {
  return [
    get(findPath, 'member', (context) => deps.readStored(() => showResults(deps, context), context.project.id)),
    get(findResultsPath, 'member', (context) =>
      deps.readStored(
        async () => ({ kind: 'fragment', content: results(await find(deps, context), textOf(context), true) }),
        context.project.id,
      ),
    ),
  ];
}

function textOf({ url }: ConsoleContext): string {
  return (url.searchParams.get('q') ?? '').trim();
}

async function showResults(deps: FindDeps, context: ConsoleContext): Promise<PageResult> {
  const text = textOf(context);
  const groups = await find(deps, context);
  const whole = groups.flatMap(({ hits }) => hits.filter(({ isWhole }) => isWhole));
  const [only] = whole;
  // If the text is a complete id with a single match, go straight to its page.
  if (only && whole.length === 1 && groups.every(({ title }) => idTitles.has(title))) return { kind: 'redirect', to: only.href };
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

const idTitles: ReadonlySet<string> = new Set(['Calls', 'Tasks', 'End users']);

async function find(deps: FindDeps, context: ConsoleContext): Promise<readonly HitGroup[]> {
  const { project, session, role } = context;
  const text = textOf(context);
  const [found, endUsers, keys, projects] = await Promise.all([
    deps.analytics.find(project.id, text),
    text === ''
      ? { subjects: [], stoppedAt: null }
      : listSubjects(deps.queries, project.id, { prefix: text, after: null, limit: maxEndUsers }),
    text === '' ? [] : deps.keyring.list(project.id),
    deps.people.members.projectsOf(session.person),
  ]);
  const matches = (...values: readonly string[]): boolean => values.some((value) => value.toLowerCase().includes(text.toLowerCase()));
  const pages = deps.pagesFor({ slug: project.slug, role, isAdmin: session.person.isAdmin });
  const groups: readonly HitGroup[] = [
    { title: 'Calls', hits: [...found.calls.map((call) => callHit(context, call)), ...refusedHit(context, found.refused)] },
    { title: 'Tasks', hits: callsHit(context, found.taskAt, { task: toFilterValue(text) }, `Calls of the task ${text}`) },
    { title: 'End users', hits: endUserHits(context, text, endUsers, found.subjectAt) },
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
  return { label: `Call of ${model ?? requestedModel}`, detail, href: projectPath(context, `/calls/${id}`), isWhole: true };
}

function refusedHit(context: ConsoleContext, refused: FoundCalls['refused']): readonly Hit[] {
  if (refused === null) return [];
  const { id, status, reason } = refused;
  const detail = `${formatTimeIn(startOfRefused(refused), context.zone)}, ${status}, ${reasonLabels[reason]}`;
  return [{ label: 'Refused call', detail, href: projectPath(context, `/calls/${id}`), isWhole: true }];
}

/**
 * Lists the end users whose id begins with the text. If the text is the complete id or the hash of an end user, we list
 * this end user first, even if we only know them from calls.
 */
function endUserHits(context: ConsoleContext, text: string, { subjects, stoppedAt }: SubjectList, calledAt: Date | null): readonly Hit[] {
  const toHit = (subject: string): Hit => ({ label: subject, href: endUserPath(context, subject) });
  const more: Hit = { label: 'All end users that begin like this', href: projectPath(context, endUsersPath, { q: text }) };
  const isCut = subjects.length === maxEndUsers || stoppedAt !== null;
  const others = [...subjects.filter((subject) => subject !== text).map(toHit), ...(isCut ? [more] : [])];
  const isNamed = subjects.includes(text);
  if (!isNamed && calledAt === null) return others;
  const detail = calledAt === null ? 'known to memory' : `latest call ${formatTimeIn(calledAt, context.zone)}`;
  const href = !isNamed && /^[0-9a-f]{64}$/.test(text) ? endUserPathOfHash(context, text) : endUserPath(context, text);
  return [{ label: text, detail, href, isWhole: true }, ...others];
}

/** Links to the calls of the week that ends with the day of the latest call. */
function callsHit(context: ConsoleContext, latest: Date | null, filter: Readonly<Record<string, string>>, label: string): readonly Hit[] {
  if (latest === null) return [];
  const { zone } = context;
  const day = startOf('day', zone, latest.getTime());
  const period = periodQuery({ from: addDays(zone, day, -6), to: addDays(zone, day, 1) }, zone);
  const href = projectPath(context, '/calls', { ...period, ...filter });
  return [{ label, detail: `latest ${formatTimeIn(latest, zone)}`, href, isWhole: true }];
}

function results(groups: readonly HitGroup[], text: string, isCompact: boolean): Html {
  if (groups.length === 0)
    return text === ''
      ? html``
      : emptyState(
          isCompact ? null : 'Nothing found',
          html`This project has no call, task, request id, end user, key or page that matches <strong>${text}</strong>, and there is no project of that name. To find something in another project, switch to it first. Ids of calls, tasks and requests have to be complete, and those of end users need their beginning.`,
        );
  return html`${groups.map(({ title, hits }) => {
    const list = html`<ul class="found">${hits.map(
      ({ label, detail, href }) =>
        html`<li><a href="${href}"><span>${label}</span>${detail === undefined ? '' : html` <span class="muted">${detail}</span>`}</a></li>`,
    )}</ul>`;
    return isCompact ? html`<h2 class="found-title">${title}</h2>${list}` : section(title, list);
  })}`;
}
