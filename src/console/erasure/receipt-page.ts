/** The receipt of an erasure, with its progress and what it has deleted so far. */
import type { ErasureReport } from '../../memory/erasure/erasure-report.ts';
import { authorName } from '../frame/author.ts';
import { badge, copyable, definitions, formatCount, section, stats, time } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';

const states = {
  queued: ['Queued', 'warning'],
  waiting: ['In progress', 'warning'],
  done: ['Done', 'good'],
} as const;

export function stateBadge({ state }: Pick<ErasureReport, 'state'>): Html {
  const [label, tone] = states[state];
  return badge(label, tone);
}

const countLabels = {
  memories: 'Memories',
  profile_pages: 'Profile pages',
  episodes: 'Conversations',
  calls: 'Calls stripped of text and subject',
  call_parts: 'Stored messages',
  graph_facts: 'Graph facts',
} as const satisfies Record<keyof ErasureReport['deleted'], string>;

export const countNames = ['memories', 'profile_pages', 'episodes', 'calls', 'call_parts', 'graph_facts'] as const;

export function receiptPage(context: ConsoleContext, report: ErasureReport, names: ReadonlyMap<string, string>): PageContent {
  const { id, sha256, erasedAt, askedBy, deleted, cacheEntries, queued, purged, processes, drained, doneAt } = report;
  const progress = {
    queued: 'The data was erased from the database. The workflow that checks processes and Temporal has not started yet.',
    waiting: 'The data was erased from the database. Processes are draining their journals, and Temporal is deleting workflow runs.',
    done: 'The data was erased everywhere. No row from before the erasure is left.',
  }[report.state];
  return {
    kind: 'page',
    title: 'Receipt of an erasure',
    breadcrumbs: [{ label: 'Erase a subject', href: projectPath(context, '/erase') }],
    actions: html`<a class="button" href="${projectPath(context, `/erase/${id}/receipt`)}" download>Download as JSON</a>`,
    content: html`<div class="stack"><p class="hint">${progress}</p>${definitions([
      ['State', stateBadge(report)],
      ['Erased', time(erasedAt, context.zone)],
      ['Requested by', authorName(askedBy, names)],
      ['Finished processes', `${formatCount(drained)} of ${formatCount(processes)}`],
      ['Done', time(doneAt, context.zone)],
      ['Subject (SHA-256)', copyable(sha256.toString('hex'))],
      ['Id', copyable(id)],
    ])}${section(
      'Deleted',
      stats([
        ...countNames.map((name) => ({ label: countLabels[name], value: formatCount(deleted[name]) })),
        { label: 'Cached responses', value: formatCount(cacheEntries) },
        { label: 'Calls in progress', value: formatCount(queued), hint: 'will be stored without text' },
        { label: 'Workflow runs', value: formatCount(purged) },
      ]),
    )}</div>`,
  };
}
