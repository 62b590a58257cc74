/** Learning batches: what waits, runs and failed, and why; replay. */
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { type Batch, type Batches, type BatchState, type BatchWithGroups, batchStates } from '../../memory/learning/batches.ts';
import type { NextBatch } from '../../memory/learning/next-batch.ts';
import type { EndedState } from '../../memory/learning/replay.ts';
import {
  actionButton,
  codeBlock,
  csvLink,
  csvRows,
  cutPage,
  definitions,
  filterForm,
  formatCount,
  formatDuration,
  formatTimeIn,
  notice,
  pager,
  parsePageId,
  type Stat,
  section,
  selectField,
  stats,
  table,
  time,
  usd,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext, ConsoleRoute, CsvValue, PageContent } from '../frame/route.ts';
import { kindLabels, mayReplay, resultOf, stateBadge, stateLabel } from './batch-view.ts';

export interface BatchPagesDeps {
  readonly batches: Batches;
  readonly readNextBatch: (projectId: string) => Promise<NextBatch>;
}

const pageSize = 50;

export function createBatchRoutes({ batches, readNextBatch }: BatchPagesDeps): readonly ConsoleRoute[] {
  return [
    {
      method: 'get',
      path: '/batches',
      access: 'member',
      async handle(context) {
        const { project, url } = context;
        const [next, counts] = [await readNextBatch(project.id), await batches.count(project.id)];
        const rows = await batches.listPage(project.id, { state: readState(url), before: parsePageId(context), limit: pageSize + 1 });
        return listPage(context, { next, counts, rows });
      },
    },
    {
      method: 'get',
      path: '/batches.csv',
      access: 'member',
      handle: async ({ project, url, zone }) => ({
        kind: 'csv',
        fileName: `batches-${project.slug}.csv`,
        header: [
          'id',
          `created_at (${zone})`,
          `finished_at (${zone})`,
          'kind',
          'state',
          'messages',
          'memories',
          'merged',
          'facts',
          'cost_usd',
          'error',
          'error_message',
        ],
        rows: csvRows({
          readPage: (before, limit) => batches.listPage(project.id, { state: readState(url), before, limit }),
          keyOf: ({ id }) => id,
          toCsv: (batch) => csvRow(batch, zone),
        }),
      }),
    },
    {
      method: 'get',
      path: '/batches/:id',
      access: 'member',
      async handle(context) {
        return detailPage(context, await batches.show(context.project.id, idOf(context)));
      },
    },
    {
      method: 'post',
      path: '/batches/:id/replay',
      access: 'member',
      action: 'batch.replay',
      async handle(context) {
        const { id } = await batches.replay(context.project.id, idOf(context));
        return {
          kind: 'redirect',
          to: `${pathOf(context)}/${id}`,
          notice: 'The batch is replayed. Finished groups stay as they are.',
          audit: { batch: id },
        };
      },
    },
    {
      method: 'post',
      path: '/batches/replay',
      access: 'member',
      action: 'batch.replay_all',
      async handle(context, fields) {
        const state: EndedState = fields.get('state') === 'stopped' ? 'stopped' : 'failed';
        const ids = await batches.replayAll(context.project.id, state);
        const text = ids.length === 1 ? 'One batch is replayed.' : `${formatCount(ids.length)} batches are replayed.`;
        return { kind: 'redirect', to: pathOf(context), notice: text, audit: { state, batches: ids.slice(0, 100), count: ids.length } };
      },
    },
  ];
}

function pathOf({ project }: ConsoleContext): string {
  return `/console/p/${project.slug}/batches`;
}

function idOf({ params: { id = '' } }: ConsoleContext): string {
  if (!isUuid(id)) throw gatewayError('not_found', { message: 'no such batch' });
  return id.toLowerCase();
}

function readState({ searchParams }: URL): BatchState | null {
  return batchStates.find((state) => state === searchParams.get('state')) ?? null;
}

interface Listed {
  readonly next: NextBatch;
  readonly counts: Awaited<ReturnType<Batches['count']>>;
  readonly rows: readonly Batch[];
}

function listPage(context: ConsoleContext, { next, counts, rows }: Listed): PageContent {
  const page = cutPage(rows, pageSize, ({ id }) => id);
  const replay = (state: EndedState, label: string) =>
    counts[state] === 0 ? '' : actionButton({ context, action: `${pathOf(context)}/replay`, label, values: { state } });
  const filters = filterForm(context, [
    selectField({
      name: 'state',
      label: 'State',
      value: context.url.searchParams.get('state'),
      options: [{ value: '', label: 'Any' }, ...batchStates.map((value) => ({ value, label: stateLabel(value) }))],
    }),
  ]);
  const list = table({
    caption: 'Learning batches',
    hideCaption: true,
    columns: [
      { label: 'Created', value: ({ createdAt }: Batch) => time(createdAt, context.zone) },
      { label: 'Reads', value: ({ kind }) => kindLabels[kind] },
      { label: 'State', value: stateBadge },
      { label: 'Messages', value: ({ messages }) => formatCount(messages), align: 'end' },
      {
        label: 'Result',
        value: (batch) => (batch.errorMessage === null || batch.state === 'done' ? resultOf(batch) : batch.errorMessage),
        grow: true,
      },
      { label: 'Cost', value: ({ costNanos }) => usd(costNanos), align: 'end' },
    ],
    rows: page.shown,
    rowHref: ({ id }) => `${pathOf(context)}/${id}`,
    empty:
      context.url.search === ''
        ? 'A batch starts when enough new messages wait, or the oldest has waited long enough.'
        : 'No batch is in this state.',
  });
  return {
    kind: 'page',
    title: 'Batches',
    actions: html`${csvLink(context)}${replay('stopped', 'Replay all stopped')}${replay('failed', 'Replay all failed')}`,
    content: html`<div class="stack">${summary(context, next, counts)}${filters}${list}${pager(context, page.next)}</div>`,
  };
}

function summary(context: ConsoleContext, next: NextBatch, counts: Listed['counts']): Html {
  const count = (label: string, state: BatchState, value: number): Stat => ({
    label,
    value: formatCount(value),
    ...(value > 0 && { href: `${pathOf(context)}?state=${state}` }),
  });
  return stats([
    { label: 'Waiting messages', value: formatCount(next.kind === 'none' ? 0 : next.messages), hint: describeNext(context, next) },
    { label: 'Open', value: formatCount(counts.running), hint: 'Running, waiting or retrying' },
    count('Failed', 'failed', counts.failed),
    count('Stopped', 'stopped', counts.stopped),
  ]);
}

function describeNext({ now, zone }: ConsoleContext, next: NextBatch): Html | string {
  switch (next.kind) {
    case 'none':
      return 'No batch is due';
    case 'off':
      return 'Memory is off; they wait until it is on';
    case 'after_running':
      return 'The next batch starts after the running one';
    case 'due': {
      if (next.waitMs === 0) return 'The next batch starts now';
      const at = time(now + next.waitMs, zone, 'minute');
      return html`The next batch starts at ${at}, or at ${formatCount(next.batchOf)} messages`;
    }
    default:
      return next satisfies never;
  }
}

function detailPage(context: ConsoleContext, batch: BatchWithGroups): PageContent {
  const { zone, project } = context;
  const { id, state, errorMessage, error, nextTryAt, runUrl, conversationId } = batch;
  const replay = actionButton({
    context,
    action: `${pathOf(context)}/${id}/replay`,
    label: state === 'failed' || state === 'stopped' ? 'Replay' : 'Try now',
    about: 'this batch',
  });
  const temporal = runUrl === null ? '' : html`<a class="button" href="${runUrl}" rel="external">Open in Temporal</a>`;
  return {
    kind: 'page',
    title: 'Batch',
    breadcrumbs: [{ label: 'Batches', href: pathOf(context) }],
    actions: html`${temporal}${mayReplay(state) ? replay : ''}`,
    content: html`<div class="stack">${errorMessage === null || state === 'done' ? '' : notice(errorMessage, state === 'failed' ? 'bad' : 'warning', errorTitle(state, error))}
${definitions([
  ['State', stateBadge(batch)],
  ['Reads', kindLabels[batch.kind]],
  ...(conversationId === null
    ? []
    : [['Conversation', html`<a href="/console/p/${project.slug}/conversations/${conversationId}">Open</a>`] as const]),
  ['Messages', formatCount(batch.messages)],
  ['Result', resultOf(batch)],
  ['Cost', usd(batch.costNanos)],
  ['Calls of the memory model', formatCount(batch.attempts)],
  ['Created', time(batch.createdAt, zone)],
  ['Finished', time(batch.finishedAt, zone)],
  ...(nextTryAt === null ? [] : [['Next try', nextTry(context, nextTryAt)] as const]),
  ['Duration', batch.finishedAt === null ? null : formatDuration(batch.finishedAt.getTime() - batch.createdAt.getTime())],
])}${groupSection(context, batch)}${section('Workflow in Temporal', codeBlock(batch.workflowId, 'Workflow id'))}</div>`,
  };
}

function errorTitle(state: BatchState, error: string | null): string {
  return state === 'retrying' || state === 'waiting' || state === 'running' ? `Last attempt: ${error}` : `${stateLabel(state)}: ${error}`;
}

function nextTry({ now, zone }: ConsoleContext, at: Date): Html {
  const waitMs = at.getTime() - now;
  return html`${time(at, zone)}${waitMs > 0 ? html` <span class="muted">in ${formatDuration(waitMs)}</span>` : ''}`;
}

function groupSection(context: ConsoleContext, { groups }: BatchWithGroups): Html {
  const rows = table({
    caption: 'Groups',
    hideCaption: true,
    columns: [
      { label: 'Group', value: ({ position }: (typeof groups)[number]) => position + 1 },
      {
        label: 'Subject',
        value: ({ subjectSha256 }) =>
          subjectSha256 === null
            ? html`<span class="muted">None</span>`
            : html`<code title="${subjectSha256}">${subjectSha256.slice(0, 12)}…</code>`,
      },
      { label: 'State', value: ({ state }) => state },
      { label: 'Messages', value: ({ messages }) => formatCount(messages), align: 'end' },
      {
        label: 'Result',
        value: (group) => (group.errorMessage === null || group.state === 'done' ? resultOf(group) : group.errorMessage),
        grow: true,
      },
      { label: 'Next try', value: ({ nextTryAt }) => (nextTryAt === null ? '–' : nextTry(context, nextTryAt)), wideOnly: true },
      { label: 'Cost', value: ({ costNanos }) => usd(costNanos), align: 'end' },
    ],
    rows: groups,
    empty: 'Its groups were erased.',
  });
  return section('Groups', rows, { hint: 'One for each end user, one for calls without. A group is named by the SHA-256 of its subject.' });
}

function csvRow(batch: Batch, zone: string): CsvValue[] {
  const { id, createdAt, finishedAt, kind, state, messages, written, merged, facts, costNanos, error, errorMessage } = batch;
  const times = [createdAt, finishedAt].map((at) => (at === null ? null : formatTimeIn(at, zone)));
  return [id, ...times, kind, state, messages, written, merged, facts, costNanos / 1e9, error, errorMessage];
}
