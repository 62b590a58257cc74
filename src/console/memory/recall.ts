/**
 * Shows which memories recall would insert into a call, with a dry run of the API. The state of the form is in the URL.
 */
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { dryRunRequestSchema } from '../../memory/recall/dry-run.ts';
import type { FoundMemory } from '../../memory/recall/find-memories.ts';
import type { OmittedMemory, RecallExplanation } from '../../memory/recall/recall.ts';
import { type Column, codeBlock, filterForm, formatDuration, notice, section, table, textField } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent } from '../frame/route.ts';
import { shorten } from '../frame/values.ts';
import type { MemoryPagesDeps } from './deps.ts';
import { memoryPath, stateBadges, styles, subjectLabel } from './item-view.ts';

export function createRecallRoutes({ explainRecall }: MemoryPagesDeps): readonly ConsoleRoute[] {
  return [
    get('/memory/recall', 'member', async (context): Promise<PageContent> => {
      const { url, project } = context;
      const text = url.searchParams.get('q')?.trim() ?? '';
      const request = { text, subject: url.searchParams.get('subject') || null, dry_run: true };
      const result = text === '' ? '' : describe(context, await explainRecall(project.id, parseOrBadRequest(dryRunRequestSchema, request)));
      return {
        kind: 'page',
        title: 'What would recall find',
        styles: [styles],
        breadcrumbs: [{ label: 'Memory', href: memoryPath(context) }],
        content: html`<p class="lead">Searches as a call with <code>x-gateway-memory: recall</code> does, without a call of chat. Its embedding is charged as those of learning are.</p>
<div class="stack">${messageForm(context)}${result}</div>`,
      };
    }),
  ];
}

function messageForm(context: ConsoleContext): Html {
  const { searchParams: given } = context.url;
  return filterForm(
    context,
    [
      textField({ name: 'q', label: 'Message of the user', type: 'search', value: given.get('q'), required: true, maxLength: 2_000 }),
      textField({ name: 'subject', label: 'Subject', value: given.get('subject'), placeholder: 'Any', maxLength: 256 }),
    ],
    { submit: 'Show' },
  );
}

function describe(context: ConsoleContext, { isEnabled, block, used, omitted, ...search }: RecallExplanation): Html {
  if (!isEnabled) return notice('Memory is off for this project, so recall inserts nothing.', 'warning');
  const reason: Column<OmittedMemory> = { label: 'Left out because', value: (memory) => reasonLabels[memory.reason] };
  const late = 'The deadline ended a search. This is what had been found by then, and memories rated wrong may be missing.';
  return html`${search.isLate ? notice(late, 'warning') : ''}<p class="hint">${describeSearch(search)}</p>
${block === null ? notice('Recall would insert nothing.') : section('Inserted block', codeBlock(block, 'Inserted block'))}
${section('Inserted memories', memoryTable(context, 'Inserted memories', used), { hint: partsHint })}
${omitted.length === 0 ? '' : section('Left out', memoryTable(context, 'Left out', omitted, [reason]))}`;
}

function describeSearch({ vector, isReranked, durationMs }: Pick<RecallExplanation, 'vector' | 'isReranked' | 'durationMs'>): string {
  const compared = vector === null ? 'Compared by text only' : 'Compared by meaning and text';
  return `${compared}${isReranked ? ', in the order of the tier memory-rerank' : ''}, in ${formatDuration(durationMs)}.`;
}

const reasonLabels: Readonly<Record<OmittedMemory['reason'], string>> = {
  near_duplicate: 'It nearly repeats a better or a newer match',
  unsafe: 'It reads like an instruction, or has no text but markup',
  limit: 'The block is full',
  weak_match: 'It matches much worse than the best one',
  rated_wrong: 'Two ratings say that it is wrong',
};

const partLabels: Readonly<Record<string, string>> = {
  similarity: 'similarity',
  terms: 'terms',
  time: 'named time',
  neighbours: 'same conversation',
  ratings: 'ratings',
  relevance: 'relevance',
};

const partsHint =
  'Similarity of the vectors; share of the terms of the message, weighted by rarity; what the named time and other memories of the ' +
  'same conversation add to the score; what ratings add or take away; relevance by the model of memory-rerank.';

function memoryTable<Memory extends FoundMemory>(
  context: ConsoleContext,
  caption: string,
  rows: readonly Memory[],
  further: readonly Column<Memory>[] = [],
): Html {
  return table<Memory>({
    caption,
    columns: [
      { label: 'Memory', value: ({ item }) => html`${shorten(item.text)}${stateBadges(item)}`, grow: true },
      { label: 'Subject', value: ({ item }) => subjectLabel(item.subject) },
      { label: 'Why', value: ({ parts }) => describeParts(parts) },
      { label: 'Score', value: ({ score }) => score.toFixed(2), align: 'end' },
      ...further,
    ],
    rows,
    rowHref: ({ item }) => memoryPath(context, item.id),
    empty: 'No memory matches this message.',
  });
}

/** Explains the score, e.g. as `similarity 0.71, terms 0.40`. */
function describeParts(parts: FoundMemory['parts']): string {
  const named = Object.entries(parts).flatMap(([name, value]) => (value ? [`${partLabels[name] ?? name} ${value.toFixed(2)}`] : []));
  return named.join(', ');
}
