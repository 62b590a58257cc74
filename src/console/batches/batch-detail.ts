/** The page of a learning batch with its state, errors and groups. */
import type { BatchState, BatchWithGroups } from '../../memory/learning/batches.ts';
import {
  actionButton,
  badge,
  codeBlock,
  definitions,
  equalUsd,
  formatCount,
  formatDuration,
  notice,
  section,
  sentence,
  table,
  time,
  usd,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { kindLabels, mayReplay, mayStop, resultOf, stateBadge, stateLabels } from './batch-view.ts';

export function detailPage(context: ConsoleContext, batch: BatchWithGroups): PageContent {
  const { zone } = context;
  const { id, state, errorMessage, error, nextTryAt, runUrl, conversationId } = batch;
  const button = (verb: string, label: string, danger = false): Html =>
    actionButton({ context, action: projectPath(context, `/batches/${id}/${verb}`), label, about: 'this batch', danger });
  const replay = button('replay', state === 'failed' || state === 'stopped' ? 'Replay' : 'Try now');
  const temporal = runUrl === null ? '' : html`<a class="button" href="${runUrl}" rel="external">Open in Temporal</a>`;
  return {
    kind: 'page',
    title: 'Batch',
    breadcrumbs: [{ label: 'Batches', href: projectPath(context, '/batches') }],
    actions: html`${temporal}${mayStop(state) ? button('stop', 'Stop', true) : ''}${mayReplay(state) ? replay : ''}`,
    content: html`<div class="stack">${errorMessage === null || state === 'done' ? '' : notice(sentence(errorMessage), state === 'failed' || state === 'failing' ? 'bad' : 'warning', errorTitle(state, error))}
${definitions([
  ['State', stateBadge(batch)],
  ['Kind', kindLabels[batch.kind]],
  ...(conversationId === null
    ? []
    : [['Conversation', html`<a href="${projectPath(context, `/conversations/${conversationId}`)}">Open</a>`] as const]),
  ['Messages', formatCount(batch.messages)],
  ['Result', resultOf(batch)],
  ['Cost', usd(batch.costNanos)],
  ['Calls of the memory model', formatCount(batch.attempts)],
  ['Created', time(batch.createdAt, zone)],
  ['Finished', time(batch.finishedAt, zone)],
  ...(nextTryAt === null ? [] : [['Next try', nextTry(context, nextTryAt)] as const]),
  ['Duration', batch.finishedAt === null ? null : formatDuration(batch.finishedAt.getTime() - batch.createdAt.getTime())],
])}${mayStop(state) ? html`<p class="hint">Stop gives the batch up: memory makes no further attempts to learn from it. What it has learned so far stays, and a replay takes the batch up again.</p>` : ''}${groupSection(context, batch)}${section('Workflow in Temporal', codeBlock(batch.workflowId, 'Workflow id'))}</div>`,
  };
}

function errorTitle(state: BatchState, error: string | null): string {
  return state === 'retrying' || state === 'failing' || state === 'waiting' || state === 'running'
    ? `Last attempt: ${error}`
    : `${stateLabels[state]}: ${error}`;
}

function nextTry({ now, zone }: ConsoleContext, at: Date): Html {
  const waitMs = at.getTime() - now;
  return html`${time(at, zone)}${waitMs > 0 ? html` <span class="muted">in ${formatDuration(waitMs)}</span>` : ''}`;
}

function groupSection(context: ConsoleContext, { groups, errorMessage }: BatchWithGroups): Html {
  const money = equalUsd(groups.map(({ costNanos }) => costNanos));
  const rows = table({
    caption: 'Groups',
    columns: [
      { label: 'Group', value: ({ position }: (typeof groups)[number]) => position + 1 },
      {
        label: 'Subject',
        value: ({ subjectSha256 }) =>
          subjectSha256 === null
            ? html`<span class="muted">None</span>`
            : html`<code title="${subjectSha256}">${subjectSha256.slice(0, 12)}…</code>`,
      },
      { label: 'State', value: ({ state }) => badge(state) },
      { label: 'Messages', value: ({ messages }) => formatCount(messages), align: 'end' },
      {
        label: 'Result',
        value: (group) => {
          if (group.errorMessage === null || group.state === 'done') return resultOf(group);
          // If the whole batch failed with this error, the notice at the top already shows the message, so only show
          // the code here.
          return group.errorMessage === errorMessage ? html`<code>${group.error}</code>` : sentence(group.errorMessage);
        },
        grow: true,
      },
      { label: 'Next try', value: ({ nextTryAt }) => (nextTryAt === null ? '–' : nextTry(context, nextTryAt)), wideOnly: true },
      { label: 'Cost', value: ({ costNanos }) => money(costNanos), align: 'end' },
    ],
    rows: groups,
    empty: 'The groups of this batch were erased.',
  });
  return section('Groups', rows, {
    hint: 'There is one group for each end user, and one for calls without an end user. Subjects are shown as their SHA-256.',
  });
}
