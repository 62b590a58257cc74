/** Lists the end users that memory knows, and searches them by the beginning of their id. */
import { hashSubjectHex, isSubject } from '../../core/subject.ts';
import { listSubjects, type SubjectSummary, summarizeSubjects } from '../../memory/records/subjects.ts';
import type { SubjectUse } from '../../usage/analytics/subject-calls.ts';
import { ago, cutPage, filterForm, pageParameter, pager, table, textField } from '../frame/components.ts';
import { endUserPath } from '../frame/end-user.ts';
import { html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import type { EndUserDeps } from './deps.ts';
import { formatBounded, latest } from './end-user-page.ts';

const pageSize = 50;

type Row = SubjectSummary & { readonly calls: SubjectUse };

export async function listPage(deps: EndUserDeps, context: ConsoleContext): Promise<PageContent> {
  const prefix = context.url.searchParams.get('q')?.trim() ?? '';
  const after = context.url.searchParams.get(pageParameter) || null;
  const { subjects, stoppedAt } = await listSubjects(deps.queries, context.project.id, { prefix, after, limit: pageSize + 1 });
  const { shown, next: following } = cutPage(subjects, pageSize, (subject) => subject);
  const next = following ?? stoppedAt;
  const rows = await readRows(deps, context.project.id, shown);
  const hashed = after === null && isSubject(prefix) && !shown.includes(prefix) ? await readRows(deps, context.project.id, [prefix]) : [];
  const content = html`<div class="stack">${filterForm(context, [
    textField({ name: 'q', label: 'Begins with', type: 'search', value: prefix, maxLength: 256, placeholder: 'As applications send it' }),
  ])}${endUserTable(context, [...hashed.filter(({ calls }) => calls.calls > 0), ...rows], next !== null)}${pager(context, next, { first: 'First', next: 'Next' })}
<p class="hint">Without a stored conversation, prompt or memory, the gateway only knows the hash of an end user. Search for the complete id then, or see <a href="${projectPath(context, '/explore', { group: 'subject' })}">the spend of all end users</a>.</p></div>`;
  return { kind: 'page', title: 'End users', content };
}

async function readRows({ queries, analytics }: EndUserDeps, projectId: string, subjects: readonly string[]): Promise<readonly Row[]> {
  const hashes = subjects.map(hashSubjectHex);
  const [summaries, use] = await Promise.all([summarizeSubjects(queries, projectId, subjects), analytics.subjectUse(projectId, hashes)]);
  return summaries.map((summary, index) => ({
    ...summary,
    calls: use.get(hashes[index] ?? '') ?? { calls: 0, isMore: false, lastAt: null },
  }));
}

function endUserTable(context: ConsoleContext, rows: readonly Row[], hasNext: boolean) {
  const { now, zone } = context;
  const notFound = hasNext
    ? 'There may be some on the next page. None was found so far, because many other ids only differ in upper and lower case.'
    : 'No end user’s id begins like this. Upper and lower case matter.';
  return table<Row>({
    caption: 'End users',
    rows,
    rowHref: ({ subject }) => endUserPath(context, subject),
    empty: context.url.searchParams.get('q')
      ? notFound
      : 'End users appear here once a call names one, with the header x-gateway-memory-subject or the member user, or once there is a memory about one.',
    columns: [
      { label: 'End user', value: ({ subject }) => subject, grow: true },
      { label: 'Calls', align: 'end', value: ({ calls }) => formatBounded({ count: calls.calls, isMore: calls.isMore }) },
      { label: 'Conversations', align: 'end', value: ({ conversations }) => formatBounded(conversations) },
      { label: 'Memories', align: 'end', value: ({ memories }) => formatBounded(memories) },
      { label: 'Last seen', value: ({ calls, lastTurnAt }) => ago(latest(calls.lastAt, lastTurnAt), now, zone) },
    ],
  });
}
