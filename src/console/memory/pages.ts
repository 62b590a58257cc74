/** Shows the pages that learning writes: the knowledge page of the project, and a profile page for each subject. */
import { findPage, listProfiles, type StoredPage } from '../../memory/records/pages.ts';
import {
  ago,
  cutPage,
  emptyState,
  filterForm,
  formatCount,
  pageParameter,
  pager,
  section,
  table,
  textField,
  time,
} from '../frame/components.ts';
import { endUserPath } from '../frame/end-user.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent } from '../frame/route.ts';
import type { MemoryPagesDeps } from './deps.ts';
import { styles } from './item-view.ts';

const profilesPerPage = 50;
const path = '/pages';

export function createPagesRoutes({ queries }: MemoryPagesDeps): readonly ConsoleRoute[] {
  return [
    get(path, 'member', async (context): Promise<PageContent> => {
      const { project, url } = context;
      const subject = url.searchParams.get('subject');
      if (subject) return profilePage(context, subject, await findPage(queries, project.id, subject));
      const knowledge = await findPage(queries, project.id, null);
      const rows = await listProfiles(queries, project.id, { after: url.searchParams.get(pageParameter), limit: profilesPerPage + 1 });
      return overviewPage(context, knowledge, rows);
    }),
  ];
}

type Profile = Awaited<ReturnType<typeof listProfiles>>[number];

function overviewPage(context: ConsoleContext, knowledge: StoredPage | null, rows: readonly Profile[]): PageContent {
  const { shown, next } = cutPage(rows, profilesPerPage, ({ subject }) => subject);
  const profiles = table({
    caption: 'Profile pages',
    columns: [
      { label: 'Subject', value: ({ subject }: Profile) => subject, grow: true },
      { label: 'Characters', value: ({ length }) => formatCount(length), align: 'end' },
      { label: 'Updated', value: ({ updatedAt }) => ago(updatedAt, context.now, context.zone) },
    ],
    rows: shown,
    rowHref: ({ subject }) => projectPath(context, path, { subject }),
    empty: 'Learning writes a profile page for each subject that it knows something about.',
  });
  const field = textField({ name: 'subject', label: 'Subject', type: 'search', maxLength: 256, placeholder: 'Exactly' });
  const find = filterForm(context, [field], { submit: 'Open' });
  return {
    kind: 'page',
    title: 'Pages',
    styles: [styles],
    content: html`<div class="stack">${section('Knowledge page', knowledge === null ? noPage() : pageText(context, knowledge), {
      hint: 'Summarizes the memories of the whole project. Every wake-up contains it.',
    })}${section(
      'Profile pages',
      html`<div class="stack">${find}${profiles}${pager(context, next, { first: 'First', next: 'Next' })}</div>`,
      { hint: 'One for each subject.' },
    )}</div>`,
  };
}

function profilePage(context: ConsoleContext, subject: string, page: StoredPage | null): PageContent {
  const memories = projectPath(context, '/memory', { subject });
  return {
    kind: 'page',
    title: `Profile of ${subject}`,
    styles: [styles],
    breadcrumbs: [{ label: 'Pages', href: projectPath(context, path) }],
    actions: html`<a class="button" href="${memories}">Memories of this subject</a><a class="button" href="${endUserPath(context, subject)}">End user</a>`,
    content: page === null ? noPage() : pageText(context, page),
  };
}

function pageText(context: ConsoleContext, { text, updatedAt, batchId }: StoredPage): Html {
  const batch = batchId === null ? '' : html` by <a href="${projectPath(context, `/batches/${batchId}`)}">this learning batch</a>`;
  return html`<div class="card"><p class="text prose">${text}</p><p class="hint">Written ${time(updatedAt, context.zone)}${batch}.</p></div>`;
}

function noPage(): Html {
  return emptyState(
    'No page yet',
    'Learning writes it once there are memories to summarize, and again after one of them is corrected or removed.',
  );
}
