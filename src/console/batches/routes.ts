/** The pages about learning batches, with actions to replay and stop them. */
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { minuteMs } from '../../core/time.ts';
import { type Batch, type Batches, type BatchState, batchStates } from '../../memory/learning/batches.ts';
import type { NextBatch } from '../../memory/learning/next-batch.ts';
import type { EndedState } from '../../memory/learning/replay.ts';
import {
  actionButton,
  allPages,
  countOf,
  csvFile,
  csvLink,
  cutPage,
  equalUsd,
  filterForm,
  filterSelect,
  formatCount,
  formatDuration,
  formatTimeIn,
  pager,
  parsePageId,
  type Stat,
  sentence,
  stats,
  table,
  time,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { detailPage } from './batch-detail.ts';
import { kindLabels, resultOf, stateBadge, stateLabels } from './batch-view.ts';

export interface BatchPagesDeps {
  readonly batches: Batches;
  readonly readNextBatch: (projectId: string) => Promise<NextBatch>;
  /** Returns how long the oldest message has been due. 0 if none is due. */
  readonly readLagMs: (projectId: string) => Promise<number>;
}

const pageSize = 50;

export function createBatchRoutes({ batches, readNextBatch, readLagMs }: BatchPagesDeps): readonly ConsoleRoute[] {
  return [
    get('/batches', 'member', async (context) => {
      const { project, url } = context;
      const [next, counts] = [await readNextBatch(project.id), await batches.count(project.id)];
      const lagMs = await readLagMs(project.id);
      const rows = await batches.listPage(project.id, { state: readState(url), before: parsePageId(context), limit: pageSize + 1 });
      return listPage(context, { next, lagMs, counts, rows });
    }),
    get('/batches.csv', 'member', async ({ project, url, zone }) =>
      csvFile<Batch>(
        `batches-${project.slug}.csv`,
        {
          id: ({ id }) => id,
          [`created_at (${zone})`]: ({ createdAt }) => formatTimeIn(createdAt, zone),
          [`finished_at (${zone})`]: ({ finishedAt }) => finishedAt && formatTimeIn(finishedAt, zone),
          kind: ({ kind }) => kind,
          state: ({ state }) => state,
          messages: ({ messages }) => messages,
          memories: ({ written }) => written,
          merged: ({ merged }) => merged,
          facts: ({ facts }) => facts,
          cost_usd: ({ costNanos }) => costNanos / 1e9,
          error: ({ error }) => error,
          error_message: ({ errorMessage }) => errorMessage,
        },
        allPages(
          (before, limit) => batches.listPage(project.id, { state: readState(url), before, limit }),
          ({ id }) => id,
        ),
      ),
    ),
    get('/batches/:id', 'member', async (context) => detailPage(context, await batches.show(context.project.id, idOf(context)))),
    post('/batches/:id/replay', { access: 'member', action: 'batch.replay' }, async (context) => {
      const { id } = await batches.replay(context.project.id, idOf(context));
      return {
        kind: 'redirect',
        to: projectPath(context, `/batches/${id}`),
        notice: 'The batch is being replayed. Groups that have finished are not repeated.',
        audit: { batch: id },
      };
    }),
    post('/batches/:id/stop', { access: 'member', action: 'batch.stop' }, async (context) => {
      const { id, messages } = await batches.stop(context.project.id, idOf(context));
      const path = projectPath(context, `/batches/${id}`);
      const count = countOf(messages, 'message');
      return {
        kind: 'redirect',
        to: path,
        notice: `The batch is stopped. Memory no longer tries to learn from its ${count}, and keeps what it has already learned from them. Undo replays the batch.`,
        undo: { action: `${path}/replay` },
        audit: { batch: id },
      };
    }),
    post('/batches/replay', { access: 'member', action: 'batch.replay_all' }, async (context, fields) => {
      const state: EndedState = fields.get('state') === 'stopped' ? 'stopped' : 'failed';
      const ids = await batches.replayAll(context.project.id, state);
      const text = ids.length === 1 ? 'One batch is being replayed.' : `${formatCount(ids.length)} batches are being replayed.`;
      return {
        kind: 'redirect',
        to: projectPath(context, '/batches'),
        notice: text,
        audit: { state, batches: ids.slice(0, 100), count: ids.length },
      };
    }),
  ];
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
  readonly lagMs: number;
  readonly counts: Awaited<ReturnType<Batches['count']>>;
  readonly rows: readonly Batch[];
}

function listPage(context: ConsoleContext, { next, lagMs, counts, rows }: Listed): PageContent {
  const page = cutPage(rows, pageSize, ({ id }) => id);
  const replay = (state: EndedState, label: string, count: number) =>
    count === 0 ? '' : actionButton({ context, action: projectPath(context, '/batches/replay'), label, values: { state } });
  const filters = filterForm(context, [filterSelect(context, 'state', 'State', stateLabels)]);
  const money = equalUsd(page.shown.map(({ costNanos }) => costNanos));
  const list = table({
    caption: 'Learning batches',
    columns: [
      { label: 'Created', value: ({ createdAt }: Batch) => time(createdAt, context.zone) },
      { label: 'Kind', value: ({ kind }) => kindLabels[kind] },
      { label: 'State', value: stateBadge },
      { label: 'Messages', value: ({ messages }) => formatCount(messages), align: 'end' },
      {
        label: 'Result',
        value: (batch) => (batch.errorMessage === null || batch.state === 'done' ? resultOf(batch) : sentence(batch.errorMessage)),
        grow: true,
      },
      { label: 'Cost', value: ({ costNanos }) => money(costNanos), align: 'end' },
    ],
    rows: page.shown,
    rowHref: ({ id }) => projectPath(context, `/batches/${id}`),
    empty:
      context.url.search === ''
        ? 'A batch starts when enough new messages are waiting, or when the oldest one has waited long enough.'
        : 'There are no batches in this state.',
  });
  return {
    kind: 'page',
    title: 'Batches',
    actions: html`${csvLink(context)}${replay('stopped', 'Replay all stopped', counts.stopped)}${replay('failed', 'Replay all failed', counts.failed + counts.failing)}`,
    content: html`<div class="stack">${summary(context, { next, lagMs, counts })}${filters}${list}${pager(context, page.next)}</div>`,
  };
}

function summary(context: ConsoleContext, { next, lagMs, counts }: Omit<Listed, 'rows'>): Html {
  const count = (label: string, state: 'failing' | EndedState, value: number): Stat => ({
    label,
    value: formatCount(value),
    ...(value > 0 && { href: projectPath(context, '/batches', { state }) }),
  });
  return stats([
    { label: 'Waiting messages', value: formatCount(next.kind === 'none' ? 0 : next.messages), hint: describeNext(context, next) },
    ...(lagMs < minuteMs ? [] : [{ label: 'Delay', value: formatDuration(lagMs), hint: 'Age of the oldest message that is due' }]),
    { label: 'Open', value: formatCount(counts.running), hint: 'Running, waiting or retrying' },
    count('Failing', 'failing', counts.failing),
    count('Failed', 'failed', counts.failed),
    count('Stopped', 'stopped', counts.stopped),
  ]);
}

function describeNext({ now, zone }: ConsoleContext, next: NextBatch): Html | string {
  switch (next.kind) {
    case 'none':
      return 'No batch is due';
    case 'off':
      return 'Memory is off, so they wait until it is turned on';
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
