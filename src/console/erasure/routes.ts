/**
 * The pages for erasing a subject: a preview, a confirmation and a receipt. The list of erasures only has the SHA-256
 * of each subject.
 */
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { hashSubjectHex } from '../../core/subject.ts';
import type { Queries } from '../../db/database.ts';
import { toErasureReportJson } from '../../http/shapes/memory-json.ts';
import type { EraseRequest } from '../../memory/erasure/erase.ts';
import { type ErasurePreview, previewErasure } from '../../memory/erasure/erasure-preview.ts';
import { type ErasureReport, type ErasureSummary, findErasure, listErasures } from '../../memory/erasure/erasure-report.ts';
import { optionalSubject } from '../../memory/items/item-schemas.ts';
import type { ExportMemory } from '../../memory/portability/export-memory.ts';
import { findPersonNames } from '../../people/person-names.ts';
import { authorName, authorOf, findAuthors } from '../frame/author.ts';
import {
  actionButton,
  allPages,
  confirmationForm,
  csvFile,
  csvLink,
  cutPage,
  filterForm,
  formatCount,
  formatTimeIn,
  pager,
  parsePageId,
  section,
  stats,
  table,
  textField,
  time,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { countNames, receiptPage, stateBadge } from './receipt-page.ts';

export interface ErasurePagesDeps {
  readonly queries: Queries;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
  readonly eraseSubject: (request: EraseRequest) => Promise<ErasureSummary>;
  readonly exportMemory: ExportMemory;
}

const pageSize = 25;

export function createErasureRoutes({ queries, readStored, eraseSubject, exportMemory }: ErasurePagesDeps): readonly ConsoleRoute[] {
  const authorsOf = (reports: readonly ErasureReport[]) =>
    findAuthors(
      (ids) => findPersonNames(queries, ids),
      reports.map(({ askedBy }) => askedBy),
    );
  const show = async (context: ConsoleContext, subject: string | null): Promise<PageContent> => {
    const { id } = context.project;
    const rows = await listErasures(queries, id, pageSize + 1, parsePageId(context));
    const counts = subject === null ? null : await readStored(() => previewErasure(queries, id, subject), id);
    return startPage(context, { subject, counts, rows, names: await authorsOf(rows) });
  };
  const read = async ({ project, params: { id = '' } }: ConsoleContext): Promise<ErasureReport> => {
    const report = isUuid(id) ? await findErasure(queries, project.id, id) : null;
    if (!report) throw gatewayError('not_found', { message: 'no such erasure' });
    return report;
  };

  return [
    get('/erase', 'owner', (context) => show(context, readSubject(context.url.searchParams))),
    get('/erase.csv', 'owner', async ({ project, zone }) =>
      csvFile<ErasureReport>(
        `erasures-${project.slug}.csv`,
        {
          id: ({ id }) => id,
          subject_sha256: ({ sha256 }) => sha256.toString('hex'),
          [`erased_at (${zone})`]: ({ erasedAt }) => formatTimeIn(erasedAt, zone),
          asked_by: ({ askedBy }) => askedBy,
          state: ({ state }) => state,
          [`done_at (${zone})`]: ({ doneAt }) => (doneAt === null ? null : formatTimeIn(doneAt, zone)),
          ...Object.fromEntries(countNames.map((name) => [name, ({ deleted }: ErasureReport) => deleted[name]])),
        },
        allPages(
          (before, limit) => listErasures(queries, project.id, limit, before),
          ({ id }) => id,
        ),
      ),
    ),
    post(
      '/erase',
      { access: 'owner', action: 'subject.erase', invalidForm: (context, fields) => show(context, validSubject(fields)) },
      async (context, fields) => {
        const subject = requireSubject(fields);
        if (!isConfirmed(fields, subject)) throw gatewayError('bad_request', { message: 'type the subject to confirm the erasure' });
        const { id, deleted } = await eraseSubject({ projectId: context.project.id, subject, askedBy: authorOf(context.session) });
        return {
          kind: 'redirect',
          to: projectPath(context, `/erase/${id}`),
          notice: 'The subject was erased from the database. Other processes and Temporal will follow.',
          audit: { erasure: id, subject_sha256: hashSubjectHex(subject), deleted },
        };
      },
    ),
    // Use POST, because a link would have the subject in its URL.
    post('/erase/export', { access: 'owner', action: 'memory.export' }, async ({ project }, fields) => {
      const subject = requireSubject(fields);
      const digest = hashSubjectHex(subject);
      const lines = exportMemory({ projectId: project.id, project: project.slug, subject });
      const file = { fileName: `${project.slug}-${digest.slice(0, 16)}.jsonl`, contentType: 'application/x-ndjson' };
      return { kind: 'stream', ...file, chunks: toBytes(lines), audit: { subject_sha256: digest } };
    }),
    get('/erase/:id', 'owner', async (context) => {
      const report = await read(context);
      return receiptPage(context, report, await authorsOf([report]));
    }),
    get('/erase/:id/receipt', 'owner', async (context) => {
      const report = await read(context);
      const body = `${JSON.stringify(toErasureReportJson(report), null, 2)}\n`;
      return { kind: 'download', fileName: `erasure-${report.id}.json`, contentType: 'application/json; charset=utf-8', body };
    }),
  ];
}

async function* toBytes(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array, void> {
  for await (const text of lines) yield Buffer.from(text);
}

/** Returns null if the field is empty. Throws `bad_request` for an invalid subject. */
function readSubject(fields: URLSearchParams): string | null {
  const subject = fields.get('subject');
  return subject === null || subject === '' ? null : parseOrBadRequest(optionalSubject, subject);
}

function requireSubject(fields: URLSearchParams): string {
  const subject = readSubject(fields);
  if (subject === null) throw gatewayError('bad_request', { issues: [{ path: 'subject', message: 'must not be empty' }] });
  return subject;
}

function validSubject(fields: URLSearchParams): string | null {
  const parsed = optionalSubject.safeParse(fields.get('subject') || null);
  return parsed.success ? parsed.data : null;
}

/**
 * Checks whether the person has typed the subject. We ignore spaces before and after it, unless the subject itself
 * begins or ends with spaces.
 */
function isConfirmed(fields: URLSearchParams, subject: string): boolean {
  const typed = fields.get('confirmation') ?? '';
  return typed === subject || typed.trim() === subject;
}

interface Start {
  readonly subject: string | null;
  readonly counts: ErasurePreview | null;
  readonly rows: readonly ErasureReport[];
  readonly names: ReadonlyMap<string, string>;
}

function startPage(context: ConsoleContext, { subject, counts, rows, names }: Start): PageContent {
  const find = filterForm(
    context,
    [
      textField({
        name: 'subject',
        label: 'Subject',
        required: true,
        value: subject,
        maxLength: 256,
        autocomplete: 'off',
        placeholder: 'Exactly as applications send it',
      }),
    ],
    { submit: 'Show what would be deleted' },
  );
  const { shown, next } = cutPage(rows, pageSize, ({ id }) => id);
  const list = table({
    caption: 'Erasures',
    columns: [
      { label: 'Erased', value: ({ erasedAt }: ErasureReport) => time(erasedAt, context.zone) },
      { label: 'Subject (SHA-256)', value: ({ sha256 }) => html`<code>${sha256.toString('hex').slice(0, 16)}…</code>` },
      { label: 'Requested by', value: ({ askedBy }) => authorName(askedBy, names), grow: true },
      { label: 'Memories', value: ({ deleted }) => formatCount(deleted.memories), align: 'end' },
      { label: 'Conversations', value: ({ deleted }) => formatCount(deleted.episodes), align: 'end' },
      { label: 'State', value: stateBadge },
    ],
    rows: shown,
    rowHref: ({ id }) => projectPath(context, `/erase/${id}`),
    empty: 'No subjects have been erased yet.',
  });
  return {
    kind: 'page',
    title: 'Erase a subject',
    actions: csvLink(context),
    content: html`<div class="stack"><p class="hint">Deletes everything that is stored about an end user: in the database, in Temporal, and in the memory and on the disk of every process. This cannot be undone.</p>
${find}${subject === null || counts === null ? '' : confirmation(context, subject, counts)}${section(
  'Erasures',
  html`<div class="stack">${list}${pager(context, next)}</div>`,
  {
    hint: 'Applications can also erase subjects, with DELETE /v1/memory/subjects.',
  },
)}</div>`,
  };
}

function confirmation(context: ConsoleContext, subject: string, counts: ErasurePreview): Html {
  const { memories, episodes, prompts, profile_pages: pages, graph_facts: facts, calls } = counts;
  const figures = stats([
    { label: 'Memories', value: formatCount(memories) },
    { label: 'Conversations', value: formatCount(episodes) },
    { label: 'Stored prompts', value: formatCount(prompts) },
    { label: 'Profile pages', value: formatCount(pages) },
    { label: 'Graph facts', value: formatCount(facts) },
    { label: 'Calls', value: formatCount(calls), hint: 'kept without text and subject' },
  ]);
  const isEmpty = Object.values(counts).every((count) => count === 0);
  const text = isEmpty
    ? 'Nothing is stored about this subject, so check its spelling. An erasure would still discard the texts of calls in progress.'
    : 'This is stored about the subject now. The erasure deletes it, together with anything that calls in progress would add. This cannot be undone.';
  const content = confirmationForm({
    context,
    action: projectPath(context, '/erase'),
    confirmation: subject,
    text,
    submit: 'Erase this subject',
    cancelHref: projectPath(context, '/erase'),
    fields: [html`<input type="hidden" name="subject" value="${subject}">`],
  });
  const download = actionButton({
    context,
    action: projectPath(context, '/erase/export'),
    label: 'Download what is stored',
    values: { subject },
  });
  return section('What the erasure deletes', html`<div class="stack">${figures}${isEmpty ? '' : download}${content}</div>`);
}
